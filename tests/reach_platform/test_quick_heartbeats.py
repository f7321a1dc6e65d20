"""A plain heartbeat is answered as the view would; anything else is the view's."""

import io
import json

import pytest
from django.http import HttpResponse

from reach_platform.front.heartbeats import first
from tests.registry.conftest import agent, manifest, namespace, operator  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db
PLACE = "/v1/agents/a1/instances/i1"
BODY = {"status": "ok", "components": {"db": "ok"}, "resources": {"gpuFree": 1}, "inflight": 2}


@pytest.fixture
def running(agent, manifest):  # noqa: F811
    agent("PUT", "/v1/agents/a1", manifest)
    agent("PUT", PLACE, {"invokeUrl": "http://127.0.0.1:9/"})
    return agent


def left_to_the_view(environ, start_response):
    return HttpResponse("the view's", status=599)


def quick(key, body=BODY, path=PLACE + "/heartbeat", **more):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": path, "QUERY_STRING": "", "CONTENT_TYPE": "application/json",
        "HTTP_AUTHORIZATION": f"Bearer {key}", "wsgi.input": io.BytesIO(raw), **more,
    }  # fmt: skip
    return first(left_to_the_view)(environ, lambda *_: None)


def test_it_says_what_the_view_says(running):
    slow = running("POST", PLACE + "/heartbeat", BODY)
    fast = quick(running.key)
    assert (fast.status_code, json.loads(fast.content)) == (200, slow.json())
    for name in ("Content-Type", "Content-Security-Policy", "X-Content-Type-Options", "Content-Length"):
        assert fast[name] == slow[name]


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (BODY, {"HTTP_AUTHORIZATION": "Bearer nobody's"}),
        (BODY, {"HTTP_AUTHORIZATION": ""}),
        (BODY, {"QUERY_STRING": "namespace=x"}),
        (BODY, {"REQUEST_METHOD": "GET"}),
        (BODY, {"HTTP_ACCEPT": "text/html"}),
        (BODY, {"CONTENT_TYPE": "text/plain"}),
        (b"{", {}),
        (b"", {}),
        ({"status": "fine"}, {}),
        (BODY, {"PATH_INFO": "/v1/agents/a2/instances/i1/heartbeat"}),
        (BODY, {"PATH_INFO": "/v1/agents/a1/instances/i1"}),
        (BODY, {"PATH_INFO": "/v1/agents/a1/instances/.i1/heartbeat"}),
    ],
)
def test_what_is_unusual_or_wrong_is_the_views(running, body, more):
    assert quick(running.key, body, **more).status_code == 599


def test_an_operators_heartbeat_is_the_views(running, operator):  # noqa: F811
    assert quick(operator.key).status_code == 599


def test_an_instance_that_left_is_asked_for_a_new_registration(running):
    running("DELETE", PLACE)
    assert json.loads(quick(running.key).content)["registered"] is False

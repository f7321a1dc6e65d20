"""A plain heartbeat is answered as the view would; anything else is the view's."""

import asyncio
import json
import threading

import pytest

from common import redis
from reach_platform.front.heartbeats import HeartbeatLane, answers, as_plain
from reach_platform.front.types import Answer
from registry.models import Instance
from registry.services import evidence
from tests.registry.conftest import _surroundings, agent, manifest, namespace, operator  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db
PLACE = "/v1/agents/a1/instances/i1"
HEADERS = [(b"authorization", b"Bearer key"), (b"content-type", b"application/json")]
BODY = {"status": "ok", "components": {"db": "ok"}, "resources": {"gpuFree": 1}, "inflight": 2}


@pytest.fixture
def running(agent, manifest):  # noqa: F811
    """The agent's API, with an instance that is online and has nothing new to say."""
    agent("PUT", "/v1/agents/a1", manifest)
    agent("PUT", PLACE, {"invokeUrl": "http://127.0.0.1:9/"})
    agent("POST", PLACE + "/heartbeat", BODY)
    for one in Instance.objects.filter(agent__agent_id="a1", state="NEW"):
        Instance.objects.filter(pk=one.pk).update(state="ONLINE")
        evidence.row_changed([one.pk])
    assert agent("POST", PLACE + "/heartbeat", BODY).json()["state"] == "ONLINE"
    return agent


def plain(key, body=BODY, path=PLACE + "/heartbeat", method="POST", query=b"", more=(), **headers):
    """The request as the lane sees it."""
    named = {"authorization": f"Bearer {key}", "content-type": "application/json", **headers}
    wire = [(name.encode(), value.encode()) for name, value in [*named.items(), *more]]
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return as_plain({"method": method, "raw_path": path.encode(), "query_string": query, "headers": wire}, raw)


def quick(key, body=BODY, **how):
    return answers([plain(key, body, **how)])[0]


def test_it_says_what_the_view_says(running):
    slow, fast = running("POST", PLACE + "/heartbeat", BODY), quick(running.key)
    assert (fast.status, json.loads(fast.body)) == (200, slow.json())
    for name in ("Content-Type", "Content-Security-Policy", "X-Content-Type-Options", "Content-Length"):
        assert dict(fast.headers)[name.lower().encode()].decode() == slow[name]


def test_it_is_heard(running):
    pk = Instance.objects.filter(agent__agent_id="a1").latest("pk").pk
    before = evidence.heard_at([pk])[pk]
    quick(running.key)
    assert evidence.heard_at([pk])[pk] > before


@pytest.mark.parametrize(
    "how",
    [
        {"authorization": ""},
        {"query": b"namespace=x"},
        {"method": "GET"},
        {"accept": "text/html"},
        {"content-type": "text/plain"},
        {"more": [("accept", "*/*"), ("accept", "text/html")]},
        {"path": "/v1/agents/a1/instances/i1"},
        {"path": "/v1/agents/a1/instances/.i1/heartbeat"},
        {"path": "/v1/agents/a1/instances/%691/heartbeat"},
    ],
)
def test_what_is_unusual_is_the_views(how):
    assert plain("key") is not None
    assert plain("key", **how) is None


@pytest.mark.parametrize(
    "body", [b"{", b"", {"status": "fine"}, {**BODY, "status": "degraded"}, {**BODY, "components": {"db": "down"}}]
)
def test_what_is_wrong_or_new_is_the_views(running, body):
    assert quick(running.key) is not None
    assert quick(running.key, body) is None


def test_a_heartbeat_with_anothers_key_or_an_operators_is_the_views(running, operator):  # noqa: F811
    assert quick(operator.key) is None
    assert quick("nobody's") is None
    assert quick(running.key, path="/v1/agents/a2/instances/i1/heartbeat") is None


def test_an_instance_that_left_or_is_new_is_the_views(running):
    running("PUT", "/v1/agents/a1/instances/i2", {"invokeUrl": "http://127.0.0.1:9/"})
    assert quick(running.key, path="/v1/agents/a1/instances/i2/heartbeat") is None
    running("DELETE", PLACE)
    assert quick(running.key) is None


def test_one_that_is_the_views_does_not_hold_up_the_others(running):
    good, bad = plain(running.key), plain(running.key, b"{")
    assert [one and one.status for one in answers([good, bad, good])] == [200, None, 200]


def test_without_redis_all_are_the_views(running, monkeypatch):
    def away(work):
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", away)
    assert quick(running.key) is None


def test_those_that_come_while_a_batch_is_under_way_make_up_the_next():
    batches, release = [], threading.Event()

    def work(batch):
        batches.append(len(batch))
        assert release.wait(10)
        return [Answer(200, [])] * len(batch)

    async def ask():
        lane, scope = HeartbeatLane(work), {"method": "POST", "raw_path": f"{PLACE}/heartbeat".encode(),
                                            "query_string": b"", "headers": HEADERS}  # fmt: skip
        asked = [asyncio.create_task(lane.answer(scope, b"{}")) for _ in range(9)]
        first = asyncio.create_task(lane.answer(scope, b"{}"))
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(first, *asked)
        lane.close()

    asyncio.run(ask())
    assert sum(batches) == 10
    assert len(batches) <= 2

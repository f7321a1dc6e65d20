"""Limits as callers meet them, and as they are set."""

import pytest

from common import clock, redis
from registry.services import clients
from tests.routing.api.conftest import problem, request

SLOW = {"ratePerSecond": 0.01, "burst": 1}


@pytest.fixture(autouse=True)
def _own_redis(settings, platform, monkeypatch):
    settings.REACH_REDIS_PREFIX = platform.namespace
    monkeypatch.setattr(redis, "_client", redis.client(socket_timeout=10))
    monkeypatch.setattr(redis, "_down_until", 0.0)


@pytest.fixture
def limited(platform):
    """Another client with these limits."""
    return lambda **limits: platform.another("limited", limits=limits)


@pytest.fixture
def put(platform):
    def putting(**more):
        route = {"candidates": [{"agent": "worker"}], **more}
        return platform.operator("PUT", f"/v1/routes/echo?namespace={platform.namespace}", route)

    return putting


def test_over_a_clients_rate_the_answer_is_429_with_retry_after(limited):
    caller = limited(**SLOW)
    assert caller("POST", "/v1/reach", request()).status_code == 202
    refused = caller("POST", "/v1/reach", request())
    document = problem(refused, 429, "RATE_LIMITED")
    assert refused["Retry-After"] == "100"
    assert document["limit"] == "client.ratePerSecond"
    assert "client limited" in document["detail"]


def test_a_refusal_of_less_than_a_second_is_rounded_up(limited):
    caller = limited(ratePerSecond=5, burst=1)
    answers = [caller("POST", "/v1/reach", request()) for _ in range(20)]
    assert {one["Retry-After"] for one in answers if one.status_code == 429} <= {"1"}


def test_over_an_abilitys_rate_everybody_gets_429(platform, shop, put):
    assert put(limits=SLOW).status_code == 201
    assert shop("POST", "/v1/reach", request()).status_code == 202
    assert problem(platform.another()("POST", "/v1/reach", request()), 429, "RATE_LIMITED")["limit"] == (
        "route.ratePerSecond"
    )


def test_items_of_a_batch_that_do_not_fit_are_429_by_themselves(limited):
    caller = limited(ratePerSecond=0.01, burst=2)
    answer = caller("POST", "/v1/reach/batch", {"tasks": [request(), {}, request(), request()]})
    items = answer.json()["items"]
    assert [one["status"] for one in items] == [202, 422, 202, 429]
    assert (items[3]["error"]["code"], items[3]["error"]["limit"]) == ("RATE_LIMITED", "client.ratePerSecond")
    assert 90_000 < items[3]["error"]["retryAfterMs"] <= 100_000


def test_a_changed_limit_counts_for_the_next_request(platform, limited, django_capture_on_commit_callbacks):
    caller = limited(**SLOW)
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(2):
            caller("POST", "/v1/reach", request())
        clients.change(platform.namespace, "limited", limits={}, actor="test", now=clock.now())
    assert caller("POST", "/v1/reach", request()).status_code == 202


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"limits": {"ratePerSecond": 0}}, "/limits/ratePerSecond"),
        ({"limits": {"ratePerSecond": -1}}, "/limits/ratePerSecond"),
        ({"limits": {"ratePerSecond": 1e-300}}, "/limits/ratePerSecond"),
        ({"limits": {"ratePerSecond": "100"}}, "/limits/ratePerSecond"),
        ({"limits": {"burst": 0}}, "/limits/burst"),
        ({"limits": {"burst": 1.5}}, "/limits/burst"),
        ({"limits": {"maxInflight": 0}}, "/limits/maxInflight"),
        ({"limits": {"maxInflight": True}}, "/limits/maxInflight"),
        ({"limits": {"queueMax": -1}}, "/limits/queueMax"),
        ({"limits": {"instanceShare": 0}}, "/limits/instanceShare"),
        ({"limits": {"maxConcurrency": 5}}, "/limits/maxConcurrency"),
        ({"limits": {"overflow": "reject"}}, "/limits/overflow"),
        ({"limits": []}, "/limits"),
        ({"overflow": "drop"}, "/overflow"),
        ({"overflow": True}, "/overflow"),
    ],
)
def test_a_bad_limit_of_a_route_is_422_with_a_pointer(put, more, pointer):
    document = problem(put(**more), 422, "INVALID")
    assert [error["pointer"] for error in document["errors"]] == [pointer]

"""What a client may ask and an ability take on, checked where a request becomes a task."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from common import clock, redis
from common.errors import IdempotencyMismatch, Invalid, RateLimited, ReachError
from routing.services import accept as accepting
from routing.trip import Accepted
from tests.routing.services.world import World, rows

SLOW = {"ratePerSecond": 0.01, "burst": 2}


@pytest.fixture(autouse=True)
def _patient_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting by oneself because a busy machine's Redis took long is another test's matter."""
    monkeypatch.setattr(redis, "_client", redis.client(socket_timeout=10))
    monkeypatch.setattr(redis, "_down_until", 0.0)


def submit(world: World, limits: Any = None, client: str = "shop", **fields: Any) -> Accepted:
    principal = world.principal(client, limits=limits or {})
    return accepting.accept(principal, world.namespace, world.request(**fields), traceparent=None, now=clock.now())


def submit_all(world: World, limits: Any, requests: list[dict[str, Any]]) -> list[Accepted | ReachError]:
    principal, items = world.principal(limits=limits), [world.request(**one) for one in requests]
    return accepting.accept_many(principal, world.namespace, items, traceparent=None, now=clock.now())


def limit(world: World, **limits: Any) -> None:
    ability = world.abilities["echo"]
    route = replace(ability.route, limits=limits, settings={"limits": limits})
    world.abilities["echo"] = replace(ability, route=route)


def outcomes(count: int, one: Callable[[int], Any]) -> list[Any]:
    """What `count` calls at the same time gave or raised."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        try:
            return one(number)
        except ReachError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def accepted(answers: list[Any]) -> int:
    return sum(isinstance(one, Accepted) and not one.replayed for one in answers)


def test_a_client_over_its_rate_is_refused_and_told_which_limit_and_when(world: World) -> None:
    submit(world, SLOW)
    submit(world, SLOW)
    with pytest.raises(RateLimited) as refusal:
        submit(world, SLOW)
    assert "client shop may have 0.01 new tasks a second, 2 at once" in refusal.value.detail
    assert refusal.value.extra["limit"] == "client.ratePerSecond"
    assert 98_000 < refusal.value.extra["retryAfterMs"] <= 100_000
    assert len(rows("SELECT id FROM routing_task WHERE namespace = %s", world.namespace)) == 2


def test_an_abilitys_rate_is_shared_by_its_clients(world: World) -> None:
    limit(world, **SLOW)
    submit(world)
    submit(world, client="other")
    with pytest.raises(RateLimited, match="ability echo"):
        submit(world, client="third")


def test_clients_of_their_own_have_buckets_of_their_own(world: World) -> None:
    for client in ("shop", "other"):
        submit(world, SLOW, client)
        submit(world, SLOW, client)


def test_requests_at_once_get_no_more_tokens_than_there_are(world: World) -> None:
    answers = outcomes(20, lambda _: submit(world, {"ratePerSecond": 0.01, "burst": 5}))
    assert accepted(answers) == 5
    assert sum(isinstance(one, RateLimited) for one in answers) == 15


def test_a_repetition_costs_nothing_and_is_answered_over_the_limit(world: World) -> None:
    first = submit(world, SLOW, correlationId="a")
    for _ in range(5):
        assert submit(world, SLOW, correlationId="a").task_id == first.task_id
    submit(world, SLOW, correlationId="b")
    with pytest.raises(RateLimited):
        submit(world, SLOW, correlationId="c")
    assert submit(world, SLOW, correlationId="a").replayed


def test_repetitions_at_once_cost_one_token(world: World) -> None:
    answers = outcomes(10, lambda _: submit(world, {"ratePerSecond": 0.01, "burst": 500}, correlationId="a"))
    assert accepted(answers) == 1
    assert tokens_used(world, 0.01) == 1


def test_what_is_refused_for_what_it_says_costs_nothing(world: World) -> None:
    submit(world, SLOW, correlationId="a")
    for _ in range(3):
        with pytest.raises(Invalid):
            submit(world, SLOW, payload={"x": "no number"})
        with pytest.raises(IdempotencyMismatch):
            submit(world, SLOW, correlationId="a", payload={"x": 2})
    submit(world, SLOW)


def test_a_batch_costs_one_for_each_item_and_what_does_not_fit_is_refused_alone(world: World) -> None:
    items = [{"payload": {"x": "bad"}}, {}, {"correlationId": "a"}, {"correlationId": "a"}, {}]
    answers = submit_all(world, SLOW, items)
    kinds = [type(one).__name__ for one in answers]
    assert kinds == ["PayloadInvalid", "Accepted", "Accepted", "Accepted", "RateLimited"]
    assert [one.replayed for one in answers[1:4]] == [False, False, True]


def test_without_limits_redis_is_not_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(redis, "call", call)
    submit(world, {"burst": 3}, correlationId="a")
    assert submit(world, {}, correlationId="a").replayed


def test_while_redis_is_away_a_process_counts_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(_: Any) -> Any:
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", call)
    limits = {"ratePerSecond": 0.02, "burst": 4}
    answers = outcomes(6, lambda _: submit(world, limits))
    assert accepted(answers) == 2  # of two web processes, each grants half


def tokens_used(world: World, rate: float) -> int:
    key = redis.key("bucket", "client", world.namespace, "shop")
    left_ms = redis.call(lambda client: client.pttl(key))
    return round(left_ms / 1000 * rate)

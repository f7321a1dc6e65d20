"""What a client may ask and an ability take on, checked where a request becomes a task."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from common import clock, redis
from common.errors import IdempotencyMismatch, Invalid, RateLimited, ReachError
from routing.limits import places as limited_places
from routing.services import accept as accepting
from routing.services import quotas
from routing.services.retry import retry
from routing.states import TaskError, TaskState
from routing.trip import Accepted, GiveUp
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
    assert [getattr(one, "replayed", None) for one in answers[1:4]] == [False, False, True]


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


def test_no_more_tasks_are_open_than_a_client_may_have(world: World) -> None:
    answers = outcomes(20, lambda _: submit(world, {"maxConcurrency": 5}))
    assert accepted(answers) == 5
    with pytest.raises(RateLimited, match="client shop may have 5 tasks that have not ended") as refusal:
        submit(world, {"maxConcurrency": 5})
    assert refusal.value.extra["limit"] == "client.maxConcurrency"


def test_processes_side_by_side_grant_no_place_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "admit", lambda asks: quotas._admit(list(asks)))  # each thread by itself
    monkeypatch.setattr(accepting, "_gathered", SimpleNamespace(do=lambda row: accepting._insert_all([row])[0]))
    for most in (5, 8):
        limits = {"maxConcurrency": most}
        outcomes(16, partial(lambda limits, _: submit(world, limits), limits))
        assert len(rows("SELECT id FROM routing_task WHERE namespace = %s", world.namespace)) == most


def test_a_place_is_free_as_soon_as_its_task_has_ended(world: World) -> None:
    for _ in range(3):
        sent = world.send(world.claim(submit(world, {"maxConcurrency": 1}).task_id))
        with pytest.raises(RateLimited):
            submit(world, {"maxConcurrency": 1})
        world.settle(sent)


def test_tasks_from_before_the_limit_count(world: World) -> None:
    submit(world)
    with pytest.raises(RateLimited):
        submit(world, {"maxConcurrency": 1})


def test_a_repetition_takes_no_place(world: World) -> None:
    submit(world, {"maxConcurrency": 2}, correlationId="a")
    answers = outcomes(10, lambda _: submit(world, {"maxConcurrency": 2}, correlationId="a"))
    assert all(one.replayed for one in answers)
    submit(world, {"maxConcurrency": 2}, correlationId="b")


def test_who_gets_no_token_keeps_no_place(world: World) -> None:
    limits = {"maxConcurrency": 2, "ratePerSecond": 0.01, "burst": 1}
    submit(world, limits)
    for _ in range(3):
        with pytest.raises(RateLimited, match="ratePerSecond"):
            submit(world, limits)
    submit(world, {"maxConcurrency": 2})


def test_who_gets_no_place_pays_no_token(world: World) -> None:
    limits = {"maxConcurrency": 1, "ratePerSecond": 0.01, "burst": 2}
    submit(world, limits)
    for _ in range(3):
        with pytest.raises(RateLimited, match="maxConcurrency"):
            submit(world, limits)
    assert tokens_used(world, 0.01) == 1


def test_an_empty_redis_makes_nobody_forget_who_is_open(world: World) -> None:
    for _ in range(2):
        submit(world, {"maxConcurrency": 3})
    redis.call(lambda client: client.delete(redis.key("open", world.namespace, "shop")))
    assert accepted(outcomes(6, lambda _: submit(world, {"maxConcurrency": 3}))) == 1


def test_places_are_counted_without_redis_and_right_again_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(_: Any) -> Any:
        raise redis.RedisAway

    submit(world, {"maxConcurrency": 4})
    with monkeypatch.context() as cut:
        cut.setattr(redis, "call", call)
        assert accepted(outcomes(6, lambda _: submit(world, {"maxConcurrency": 3}))) == 2
    assert accepted(outcomes(6, lambda _: submit(world, {"maxConcurrency": 4}))) == 1


def test_the_ended_do_not_gather(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_places, "LEAST_LOOK", 3)
    for _ in range(6):
        world.settle(world.send(world.claim(submit(world, {"maxConcurrency": 50}).task_id)))
    assert len(limited_places.members(redis.key("open", world.namespace, "shop"))) <= 3


def test_a_task_that_is_retried_takes_a_place_again(world: World) -> None:
    sent = world.send(world.claim(submit(world, {"maxConcurrency": 1}).task_id))
    world.settle(sent, GiveUp(TaskState.FAILED, TaskError.REJECTED, "no", False, None))
    other = world.send(world.claim(submit(world, {"maxConcurrency": 1}).task_id))
    retry(sent.task.task_id, "test", clock.now())
    world.settle(other)
    with pytest.raises(RateLimited):
        submit(world, {"maxConcurrency": 1})


def test_when_a_place_may_be_free_is_told_by_how_long_tasks_take(world: World) -> None:
    for _ in range(3):
        world.settle(world.send(world.claim(submit(world).task_id)))
    rows(
        "UPDATE routing_task SET created_at = ended_at - interval '7 s' WHERE namespace = %s RETURNING id",
        world.namespace,
    )
    submit(world, {"maxConcurrency": 1})
    with pytest.raises(RateLimited) as refusal:
        submit(world, {"maxConcurrency": 1})
    assert 1 <= refusal.value.retry_after <= 7
    assert refusal.value.retry_after > 3


def tokens_used(world: World, rate: float) -> int:
    key = redis.key("bucket", "client", world.namespace, "shop")
    left_ms = redis.call(lambda client: client.pttl(key))
    return round(left_ms / 1000 * rate)

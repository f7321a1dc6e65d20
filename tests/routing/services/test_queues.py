"""Whether an ability's queue takes one more, and what is told to those that it does not."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from common import clock
from common.errors import Overloaded
from routing.breaker import Breakers, Key
from routing.breaker.rule import Circuit
from routing.models import Worker
from routing.services import queues
from routing.snapshot import InstanceView
from routing.states import TaskError
from routing.trip import Accepted, Retry
from tests.routing.services.test_quotas import accepted, outcomes, submit
from tests.routing.services.world import World, failed, rows


@pytest.fixture(autouse=True)
def _worker(world: World) -> Iterator[None]:
    queues._figures.clear()
    row = Worker.objects.create(
        boot_id=world.boot, node="n", started_at=clock.now(), expires_at=clock.now() + dt.timedelta(hours=1)
    )
    yield
    row.delete()


def limit(world: World, *, slots: int = 1, overflow: str = "queue", **limits: Any) -> None:
    """The route's limits, and one instance that is given so many calls at a time."""
    ability = world.abilities["echo"]
    instance = InstanceView("i1", "worker", "http://127.0.0.1:1/", max_concurrency=slots)
    candidate = replace(ability.candidates[0], agent=replace(ability.candidates[0].agent, instances=(instance,)))
    limits = {"instanceShare": 1, **limits}
    route = replace(ability.route, limits=limits, settings={"limits": limits, "overflow": overflow})
    world.abilities["echo"] = replace(ability, route=route, candidates=(candidate,))


def took(world: World, seconds: float) -> None:
    """One task that took the agent so long."""
    world.settle(world.running())
    rows("UPDATE routing_attempt SET sent_at = ended_at - %s * interval '1 s' WHERE namespace = %s RETURNING key",
         seconds, world.namespace)  # fmt: skip


def refusal(world: World, **fields: Any) -> Overloaded:
    with pytest.raises(Overloaded) as refused:
        submit(world, **fields)
    return refused.value


def test_no_more_wait_than_may(world: World) -> None:
    limit(world, slots=2, queueMax=3)
    answers = [submit(world) for _ in range(5)]
    assert all(isinstance(one, Accepted) for one in answers)
    error = refusal(world)
    assert (error.extra["limit"], error.status) == ("route.queueMax", 503)
    assert "3 tasks may wait for echo" in error.detail


def test_running_ones_do_not_wait(world: World) -> None:
    limit(world, slots=1, queueMax=2)
    world.send(world.claim(submit(world).task_id))
    world.claim(submit(world).task_id)  # claimed, not sent: it waits
    submit(world)
    refusal(world)


def test_a_place_in_the_queue_is_usable_when_one_has_gone(world: World) -> None:
    limit(world, slots=1, queueMax=1)
    first = world.send(world.claim(submit(world).task_id))
    submit(world)
    refusal(world)
    world.settle(first)
    queues._figures.clear()
    submit(world)
    refusal(world)


def test_with_nothing_allowed_to_wait_a_free_place_is_given(world: World) -> None:
    limit(world, slots=1, queueMax=0)
    submit(world)
    refusal(world)


def test_requests_at_once_fill_the_queue_and_no_more(world: World) -> None:
    limit(world, slots=1, queueMax=4)
    answers = outcomes(20, lambda _: submit(world))
    assert accepted(answers) == 5
    assert {type(one) for one in answers} == {Accepted, Overloaded}


def test_what_other_processes_let_in_counts(world: World) -> None:
    limit(world, slots=1, queueMax=2)
    for _ in range(3):
        submit(world)
        queues._figures.clear()  # another process knows nothing of what this one let in
    refusal(world)


def test_overflow_reject_refuses_at_once_when_all_calls_are_in_flight(world: World) -> None:
    limit(world, slots=10, maxInflight=2, overflow="reject")
    world.send(world.claim(submit(world).task_id))
    submit(world)
    assert refusal(world).extra["limit"] == "route.maxInflight"


def test_a_task_that_would_come_too_late_is_refused_and_told_when_it_would_not(world: World) -> None:
    limit(world, slots=1, maxInflight=10)
    took(world, 2)
    for _ in range(6):
        submit(world)
    error = refusal(world, timeoutBudgetMs=5_000)  # six before it and itself, 2 s each and half as much to spare
    assert error.extra["limit"] == "timeoutBudgetMs"
    assert error.retry_after == pytest.approx(17, abs=0.2)
    submit(world, timeoutBudgetMs=22_000)


def test_what_a_task_takes_is_all_its_attempts_together(world: World) -> None:
    limit(world, slots=1, maxInflight=10)
    retried = world.running()
    world.settle(retried, Retry(clock.now(), "TIMEOUT"), failed(TaskError.TIMEOUT))
    world.settle(world.send(world.claim(retried.task.task_id)))
    rows("UPDATE routing_attempt SET sent_at = ended_at - interval '2 s' WHERE namespace = %s RETURNING key",
         world.namespace)  # fmt: skip
    submit(world)
    submit(world)
    assert refusal(world, timeoutBudgetMs=10_000).extra["limit"] == "timeoutBudgetMs"  # two before it, 4 s each


def test_an_instance_that_a_breaker_keeps_from_the_client_is_no_capacity(world: World, monkeypatch: Any) -> None:
    limit(world, slots=1, queueMax=0)
    at = clock.now().timestamp()
    circuits = {Key(world.namespace, "worker", "i1"): Circuit(opened=at, until=at + 3600)}
    monkeypatch.setattr(Breakers, "open", lambda self, namespace: circuits)
    refusal(world)


def test_a_high_priority_does_not_wait_for_normal_ones(world: World) -> None:
    limit(world, slots=1, maxInflight=10)
    took(world, 2)
    for _ in range(6):
        submit(world)
    queues._figures.clear()
    submit(world, timeoutBudgetMs=5_000, metadata={"priority": "high"})


def test_a_client_does_not_wait_for_another_ones_backlog(world: World) -> None:
    limit(world, slots=1, maxInflight=10)
    took(world, 2)
    for _ in range(6):
        submit(world)
    queues._figures.clear()
    submit(world, client="single", timeoutBudgetMs=8_000)


def test_what_is_for_later_is_not_queued_now(world: World) -> None:
    limit(world, slots=1, queueMax=1)
    for _ in range(4):
        submit(world, notBefore="2099-01-01T00:00:00Z")
    submit(world)


def test_repetitions_are_answered_by_a_full_ability(world: World) -> None:
    limit(world, slots=1, queueMax=0)
    first = submit(world, correlationId="a")
    assert submit(world, correlationId="a").task_id == first.task_id


def test_retry_after_is_the_time_in_which_so_many_places_come_free(world: World) -> None:
    limit(world, slots=1, queueMax=1)
    took(world, 4)
    submit(world)
    submit(world)
    assert refusal(world).retry_after == pytest.approx(4, abs=0.1)

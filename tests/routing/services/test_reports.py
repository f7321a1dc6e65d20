"""What agents report by API: receipt, progress, result, in time and late."""

import datetime as dt
import uuid
from decimal import Decimal

import pytest

from common import clock
from common.errors import NotFound, StateConflict
from common.json import dumps, parse
from registry.models import Agent, Instance
from registry.services import evidence
from routing.services import report, sweep
from routing.services.receipt import Receipt, received
from routing.snapshot.model import Price
from routing.trip import Dispatch
from tests.routing.services.world import World, callbacks_of, events, rows, task

HOUR = dt.timedelta(hours=1)


def accepted_202(world: World, **fields: object) -> Dispatch:
    sent = world.running(**fields)
    received([Receipt(sent.task.task_id, 1, clock.now(), worker=world.boot, released=True)])
    return sent


def tell(sent: Dispatch, now: dt.datetime | None = None, **body: object) -> None:
    raw = dumps({"attemptKey": str(sent.attempt_key), **body})
    report.result(sent.task.task_id, sent.attempt_key, raw, now or clock.now())


def test_a_receipt_leaves_nothing_held(world: World) -> None:
    sent = accepted_202(world)
    [attempt] = rows("SELECT * FROM routing_attempt WHERE task_id = %s", sent.task.task_id)
    assert (attempt["worker"], task(sent.task.task_id)["state"]) == (None, "RUNNING")


def test_a_reported_result_ends_the_task_with_the_very_bytes(world: World) -> None:
    sent = accepted_202(world)
    raw = b'{"attemptKey": "x", "status": "SUCCEEDED", "data": {"n": 1.10, "big": 9007199254740993}}'
    report.result(sent.task.task_id, sent.attempt_key, raw, clock.now())
    assert b'{"n": 1.10, "big": 9007199254740993}' in bytes(task(sent.task.task_id)["result"])
    report.result(sent.task.task_id, sent.attempt_key, raw, clock.now())  # told twice: no error, no change
    assert events(sent.task.task_id) == ["RECEIVED", "ROUTED", "DISPATCHED", "RUNNING", "SUCCEEDED"]


def test_a_failure_that_says_retryable_is_retried(world: World) -> None:
    sent = accepted_202(world)
    tell(sent, status="FAILED", error={"code": "OUT_OF_MEMORY", "message": "gpu", "retryable": True})
    assert task(sent.task.task_id)["state"] == "RETRY_WAIT"


def test_a_failure_keeps_the_agents_own_code(world: World) -> None:
    sent = accepted_202(world)
    tell(sent, status="FAILED", error={"code": "OUT_OF_MEMORY", "message": "gpu"})
    row = task(sent.task.task_id)
    assert (row["state"], row["error_code"]) == ("FAILED", "AGENT_FAILED")
    assert parse(row["error_details"].encode()) == {"agentCode": "OUT_OF_MEMORY"}


def test_progress_is_shown_and_moves_the_task_to_running(world: World) -> None:
    sent = world.running()
    report.progress(sent.task.task_id, sent.attempt_key, b'{"percent": 40, "message": "half"}', clock.now())
    row = task(sent.task.task_id)
    assert row["state"] == "RUNNING"
    assert parse(row["progress"].encode())["percent"] == 40


BOTH = {"type": "http", "url": "https://shop.example/cb", "events": ["progress", "final"]}


def report_progress(sent: Dispatch, percent: int) -> None:
    report.progress(sent.task.task_id, sent.attempt_key, dumps({"percent": percent, "message": "on"}), clock.now())


def test_progress_is_called_back_in_order_where_it_is_asked_for(world: World) -> None:
    sent = accepted_202(world, callback=BOTH, metadata={"userId": "u"})
    for percent in (10, 60):
        report_progress(sent, percent)
    tell(sent, status="SUCCEEDED", data={})
    first, second, last = (parse(bytes(one["body"])) for one in callbacks_of(sent.task.task_id))
    assert (first["messageType"], first["progress"]) == ("task.progress", {"percent": 10, "message": "on"})
    assert (first["state"], first["metadata"], first["at"][-1]) == ("RUNNING", {"userId": "u"}, "Z")
    assert first["sequence"] < second["sequence"]
    assert (last["messageType"], last["state"]) == ("task.result", "SUCCEEDED")


def test_progress_is_not_called_back_unasked_or_after_the_end(world: World) -> None:
    unasked = accepted_202(world, callback={**BOTH, "events": ["final"]})
    report_progress(unasked, 10)
    assert callbacks_of(unasked.task.task_id) == []
    ended = accepted_202(world, callback={**BOTH, "events": ["progress"]})
    tell(ended, status="SUCCEEDED", data={})
    report_progress(ended, 10)
    assert callbacks_of(ended.task.task_id) == []


def test_a_topic_is_told_like_an_address(world: World) -> None:
    sent = accepted_202(world, callback={"type": "stream", "topic": "orders", "events": ["progress", "final"]})
    report_progress(sent, 10)
    tell(sent, status="SUCCEEDED", data={})
    assert [one["url"] for one in callbacks_of(sent.task.task_id)] == ["stream:orders"] * 2


def test_a_result_after_the_timeout_is_kept_and_called_back_as_late(world: World) -> None:
    sent = accepted_202(world, callback={"type": "http", "url": "https://shop.example/cb"})
    sweep.sweep(clock.now() + HOUR)
    with pytest.raises(StateConflict):
        tell(sent, clock.now() + HOUR, status="SUCCEEDED", data={"y": 2})
    row = task(sent.task.task_id)
    assert (row["state"], parse(bytes(row["late"]))["data"]) == ("TIMEOUT", {"y": 2})
    bodies = [parse(bytes(one["body"])) for one in callbacks_of(sent.task.task_id)]
    assert sorted(body["late"] for body in bodies) == [False, True]
    with pytest.raises(StateConflict):
        tell(sent, clock.now() + HOUR, status="SUCCEEDED", data={"y": 3})
    assert len(callbacks_of(sent.task.task_id)) == 2


def test_an_attempt_without_answer_is_retried_after_its_deadline(world: World) -> None:
    sent = accepted_202(world)
    sweep.sweep(clock.now() + dt.timedelta(seconds=31))
    row = task(sent.task.task_id)
    assert (row["state"], row["attempts"]) == ("RETRY_WAIT", 1)


def test_the_key_of_an_earlier_attempt_is_refused(world: World) -> None:
    first = accepted_202(world)
    sweep.sweep(clock.now() + dt.timedelta(seconds=31))
    later = clock.now() + dt.timedelta(minutes=1)
    world.send(world.claim(first.task.task_id, now=later))
    with pytest.raises(StateConflict):
        tell(first, status="SUCCEEDED", data={})
    assert task(first.task.task_id)["state"] == "DISPATCHED"


def test_an_unknown_attempt_is_not_found(world: World) -> None:
    sent = accepted_202(world)
    with pytest.raises(NotFound):
        report.receipt(sent.task.task_id, uuid.uuid4(), b"{}", clock.now())


def copy_of_worker(world: World, instance_id: str = "i1") -> Instance:
    """The row of the instance that the world's tasks are sent to."""
    now = clock.now()
    agent = Agent.objects.create(namespace_id=world.namespace, agent_id="worker", manifest={"spec": {}})
    given = {"state": "ONLINE", "state_since": now, "registered_at": now, "last_heard_at": now}
    return Instance.objects.create(agent=agent, instance_id=instance_id, **given)


def seen_of(instance: Instance) -> list[tuple[bool, str]]:
    return [(call.ok, call.code) for call in evidence.read([instance.pk])[instance.pk].calls]


def test_reported_results_speak_for_and_against_the_instance(world: World) -> None:
    instance = copy_of_worker(world)
    tell(accepted_202(world), status="SUCCEEDED", data={"n": 1})
    tell(accepted_202(world), status="FAILED", error={"code": "INTERNAL_ERROR", "message": "no memory"})
    tell(accepted_202(world), status="FAILED", error={"code": "BAD_CARD", "message": "the caller's own fault"})
    assert seen_of(instance) == [(True, ""), (False, "INTERNAL_ERROR")]
    assert instance.pk in evidence.take_dirty(100)


def test_a_result_that_never_comes_speaks_against_the_instance(world: World) -> None:
    instance = copy_of_worker(world)
    accepted_202(world)
    sweep.sweep(clock.now() + dt.timedelta(seconds=31))
    assert seen_of(instance) == [(False, "TIMEOUT")]


def test_a_reported_success_is_charged_by_the_declared_price_unless_it_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "price_of", lambda attempt, instance_id: Price(per_call=0.5, currency="USD"))
    costs = []
    for said in ({}, {"cost": {"amount": 7, "currency": "CNY"}}):
        sent = accepted_202(world)
        tell(sent, status="SUCCEEDED", data={}, **said)
        costs.append(parse(bytes(task(sent.task.task_id)["result"]))["cost"])
    assert costs == [{"amount": Decimal("0.5"), "currency": "USD"}, {"amount": 7, "currency": "CNY"}]

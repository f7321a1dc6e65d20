"""The stream channel's own: what is unread, what was lost, what Redis forgot."""

import datetime as dt
import uuid
from typing import Any

import pytest
from django.db import transaction

from common import clock, redis
from common.json import parse
from registry.models import Capability
from registry.services.changes import touch
from routing.channels import entries
from routing.services import report, streams
from routing.services.cancel import cancel
from routing.services.sweep import sweep
from tests.routing.engine.drivers import Stream
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task

HALF_A_MINUTE = dt.timedelta(seconds=31)
NOTHING_MORE = {"maxAttempts": 1}


@pytest.fixture
def reader(engine: Any, town: Any) -> Stream:
    """The town's agent reads a stream."""
    return Stream(town)


def stream_of(town: Any) -> entries.Stream:
    return (town.namespace, "worker", "i1")


def added(town: Any, **fields: Any) -> uuid.UUID:
    """A task whose entry is in the stream."""
    task_id = town.submit(**fields)
    wait_until(lambda: entries.kept().get(stream_of(town)))
    return task_id


def forget(town: Any) -> None:
    """As if Redis had come back empty."""
    client = redis.client(5.0)
    client.delete(entries.key(stream_of(town)), redis.key(town.namespace, "entries", "worker", "i1"))


def attempt(task_id: uuid.UUID) -> tuple[str, str, str]:
    wait_until(lambda: rows("SELECT * FROM routing_attempt WHERE task_id = %s AND ended_at IS NOT NULL", task_id))
    row = rows("SELECT * FROM routing_attempt WHERE task_id = %s AND number = 1", task_id)[0]
    return row["outcome"], row["code"], row["certainty"]


def test_what_nobody_read_in_time_is_withdrawn_and_was_not_sent(reader, town):
    task_id = added(town, retry=NOTHING_MORE)
    sweep(clock.now() + HALF_A_MINUTE)
    assert attempt(task_id) == ("LOST", "UNREACHABLE", "NOT_SENT")
    assert redis.client(5.0).xlen(entries.key(stream_of(town))) == 0


def test_what_was_read_and_not_acknowledged_is_claimed_back_and_may_have_run(reader, town):
    task_id = town.submit(retry=NOTHING_MORE)
    reader.read()
    sweep(clock.now() + HALF_A_MINUTE)
    assert attempt(task_id) == ("LOST", "UNREACHABLE", "MAYBE_RAN")
    assert redis.client(5.0).xpending(entries.key(stream_of(town)), "reach")["pending"] == 0


def test_an_entry_that_redis_lost_is_added_again_as_the_same_attempt(reader, town):
    task_id = added(town)
    forget(town)
    wait_until(lambda: streams.mend(clock.now()) or entries.kept().get(stream_of(town)))
    body = parse(reader.next())
    assert (body["taskId"], body["attempt"], body["payload"]) == (str(task_id), 1, {"x": 1})
    reader.result(body, status="SUCCEEDED", data={})
    assert town.ended(task_id)[0]["attempts"] == 1


def test_what_must_not_run_twice_is_not_added_again(reader, town):
    with transaction.atomic():
        Capability.objects.filter(agent__namespace=town.namespace).update(spec={"sideEffects": True})
        touch(town.namespace)
    task_id = added(town, retry=NOTHING_MORE)
    forget(town)
    streams.mend(clock.now() + dt.timedelta(seconds=5))
    assert not entries.kept().get(stream_of(town))
    sweep(clock.now() + HALF_A_MINUTE)
    assert attempt(task_id)[2] == "MAYBE_RAN"


def test_the_entry_of_a_cancelled_task_is_withdrawn(reader, town):
    task_id = added(town)
    cancel(task_id, "test", clock.now())
    streams.mend(clock.now())
    assert not entries.kept().get(stream_of(town))


def test_a_receipt_takes_the_entry_out_and_the_attempt_then_has_its_own_time(reader, town):
    task_id = town.submit(timeoutMs=60_000)
    body = parse(reader.next())
    streams.mend(clock.now())
    sweep(clock.now() + HALF_A_MINUTE)
    assert (task(task_id)["state"], entries.kept().get(stream_of(town))) == ("RUNNING", None)
    reader.result(body, status="SUCCEEDED", data={})


def test_while_redis_is_away_a_task_waits_without_using_attempts(reader, town, monkeypatch):
    monkeypatch.setattr(redis, "is_away", lambda: True)
    task_id = town.submit()
    wait_until(lambda: "WAITING" in town.events(task_id))
    assert task(task_id)["attempts"] == 0
    monkeypatch.undo()
    reader.result(parse(reader.next()), status="SUCCEEDED", data={})
    assert town.ended(task_id)[0]["state"] == "SUCCEEDED"


def test_without_redis_nothing_is_given_up_for_want_of_a_receipt(reader, town, monkeypatch):
    task_id = added(town, timeoutMs=120_000)
    monkeypatch.setattr(streams, "withdrawn", lambda stream, key: None)
    sweep(clock.now() + 2 * HALF_A_MINUTE)
    assert task(task_id)["state"] == "DISPATCHED"
    cancel(task_id, "test", clock.now())


def test_a_report_without_a_receipt_counts_as_one(reader, town):
    task_id = town.submit()
    body = parse(reader.read())
    report.result(task_id, uuid.UUID(body["attemptKey"]), b'{"status": "SUCCEEDED", "data": 1}', clock.now())
    assert town.ended(task_id)[0]["state"] == "SUCCEEDED"

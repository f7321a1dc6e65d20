"""Cancelling, sweeping, retrying by hand: how tasks end other than by an answer, and begin again."""

import datetime as dt
import subprocess
import sys
import uuid
from json import loads

import pytest
from django.db import connection

from callbacks import services as callbacks
from common import clock
from common.errors import NotFound, StateConflict
from common.json import dumps, parse
from routing.services import report, sweep, workers
from routing.services.cancel import cancel
from routing.services.claim import claim
from routing.services.dispatch import dispatch
from routing.services.receipt import Receipt, received
from routing.services.redeliver import redeliver
from routing.services.retry import retry
from routing.services.waiting import put_back
from routing.states import TaskState
from routing.trip import GiveUp, Retry
from tests.routing.services.world import World, callbacks_of, events, failed, rows, task

HOUR = dt.timedelta(hours=1)
CALLBACK = {"type": "http", "url": "https://shop.example/cb"}


def lapse(boot: uuid.UUID) -> None:
    workers.renew(boot, 1)
    rows("UPDATE routing_worker SET expires_at = now() - interval '1 minute' WHERE boot_id = %s RETURNING 1", boot)


@pytest.fixture(autouse=True)
def _long_running_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RESTART_GRACE_S", 0)
    monkeypatch.setattr(workers, "STEADY_S", 0)


def test_a_cancelled_task_is_not_sent_and_is_called_back_once(world: World) -> None:
    held = world.claim(world.accept(callback=CALLBACK).task_id)
    cancel(held.task_id, "support", clock.now())
    assert dispatch([world.sending(held)], world.boot) == set()
    assert task(held.task_id)["state"] == "CANCELLED"
    assert parse(bytes(callbacks_of(held.task_id)[0]["body"]))["error"]["code"] == "CANCELLED"
    with pytest.raises(StateConflict):
        cancel(held.task_id, "support", clock.now())
    assert len(callbacks_of(held.task_id)) == 1


def test_who_steers_a_task_from_where_is_on_record_once(world: World) -> None:
    task_id = world.accept(callback=CALLBACK).task_id
    cancel(task_id, "user:ann", clock.now(), ip="10.0.0.7")
    retry(task_id, "user:ann", clock.now(), ip="10.0.0.7")
    cancel(task_id, "user:ann", clock.now(), ip="10.0.0.7")
    rows("UPDATE callbacks_callback SET state = 'DEAD', due_at = NULL WHERE subject_id = %s RETURNING 1", task_id)
    redeliver(task_id, "user:ann", clock.now(), ip="10.0.0.7")
    lines = rows("SELECT * FROM registry_audit WHERE object = %s ORDER BY id", f"task:{task_id}")
    assert {(line["actor"], line["ip"], line["namespace"]) for line in lines} == {
        ("user:ann", "10.0.0.7", world.namespace)
    }
    assert [(line["action"], loads(line["before"]), loads(line["after"])) for line in lines] == [
        ("task.cancel", {"state": "RECEIVED"}, {"state": "CANCELLED"}),
        ("task.retry", {"state": "CANCELLED", "round": 1}, {"state": "RECEIVED", "round": 2}),
        ("task.cancel", {"state": "RECEIVED"}, {"state": "CANCELLED"}),
        ("task.callback.redeliver", {"callback": "DEAD"}, {"callback": "PENDING"}),
    ]


def test_a_waiting_task_can_be_cancelled(world: World) -> None:
    task_id = world.accept().task_id
    cancel(task_id, "shop", clock.now())
    assert claim([task_id], world.boot, 1, clock.now()) == []
    with pytest.raises(NotFound):
        cancel(uuid.uuid4(), "shop", clock.now())


def test_cancelling_closes_the_open_attempt(world: World) -> None:
    sent = world.running()
    cancel(sent.task.task_id, "shop", clock.now())
    [attempt] = rows("SELECT * FROM routing_attempt WHERE task_id = %s", sent.task.task_id)
    assert (attempt["outcome"], attempt["certainty"]) == ("CANCELLED", "MAYBE_RAN")
    assert not world.settle(sent).applied


@pytest.mark.parametrize(
    ("fields", "code"), [({"ttlMs": 1000}, "EXPIRED"), ({"timeoutBudgetMs": 1000}, "TIMEOUT"), ({}, "EXPIRED")]
)
def test_a_task_that_no_worker_took_ends_for_want_of_time(world: World, fields: dict[str, int], code: str) -> None:
    task_id = world.accept(**fields).task_id
    assert task_id in sweep.sweep(clock.now() + HOUR).ended
    row = task(task_id)
    assert (row["state"], row["error_code"], row["waiting"]) == ("TIMEOUT", code, False)


def test_a_task_that_nobody_could_take_ends_as_no_instance(world: World) -> None:
    held = world.claim(world.accept().task_id)
    put_back([(held.task_id, clock.now(), {"reason": "nobody is up"})], boot_id=world.boot)
    again = world.claim(held.task_id)
    assert (again.waited_for, again.attempts) == ("nobody is up", 0)
    put_back([(held.task_id, clock.now(), None)], boot_id=world.boot)
    assert sweep.expire(held.task_id, clock.now() + HOUR)
    assert task(held.task_id)["error_code"] == "NO_INSTANCE"
    assert events(held.task_id) == ["RECEIVED", "WAITING", "TIMEOUT"]


@pytest.mark.parametrize("was_sent", [False, True])
def test_an_overdue_task_falls_back_on_what_costs_no_time(world: World, was_sent: bool) -> None:
    fields = {"timeoutBudgetMs": 60_000, "fallback": {"static": {"y": 1.0}, "substitutes": ["echo"]}}
    task_id = world.running(**fields).task.task_id if was_sent else world.accept(**fields).task_id
    assert sweep.expire(task_id, clock.now() + HOUR)
    row = task(task_id)
    assert (row["state"], row["error_code"]) == ("SUCCEEDED", None)
    assert (loads(row["result"])["data"], loads(row["result"])["degradedBy"]["kind"]) == ({"y": 1.0}, "static")
    ends = rows("SELECT outcome, code FROM routing_attempt WHERE task_id = %s", task_id)
    assert ends == [{"outcome": "TIMEOUT", "code": "TIMEOUT"}] * was_sent


def test_an_overdue_task_is_never_claimed(world: World) -> None:
    task_id = world.accept(ttlMs=1000).task_id
    assert claim([task_id], world.boot, 1, clock.now() + HOUR) == []


def test_a_dead_workers_unsent_tasks_wait_again(world: World) -> None:
    held = world.claim(world.accept().task_id)
    lapse(world.boot)
    sweep.sweep(clock.now())
    assert task(held.task_id)["waiting"]
    assert dispatch([world.sending(held)], world.boot) == set(), "the worker comes back too late"
    assert world.claim(held.task_id, boot=uuid.uuid4()).attempts == 0


def test_a_dead_workers_attempt_is_lost_and_repeated(world: World) -> None:
    sent = world.running()
    lapse(world.boot)
    sweep.sweep(clock.now())
    [attempt] = rows("SELECT * FROM routing_attempt WHERE task_id = %s", sent.task.task_id)
    assert (attempt["outcome"], attempt["certainty"]) == ("LOST", "MAYBE_RAN")
    assert task(sent.task.task_id)["state"] == "RETRY_WAIT"
    assert not world.settle(sent).applied


def test_a_restarted_database_gives_the_living_time_to_renew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RESTART_GRACE_S", 10**9)
    lapse(world.boot)
    assert world.boot not in workers.dead()


def test_an_attempt_that_its_living_worker_forgot_ends_soon_after_its_own_deadline(world: World) -> None:
    sent = world.send(world.claim(world.accept(retry={"maxAttempts": 1}).task_id))
    workers.renew(world.boot, 1)
    sweep.sweep(sent.deadline_at + dt.timedelta(seconds=10))
    assert task(sent.task.task_id)["state"] == "DISPATCHED"
    sweep.sweep(sent.deadline_at + dt.timedelta(seconds=16))
    ended = task(sent.task.task_id)
    assert (ended["state"], ended["error_code"]) == ("TIMEOUT", "TIMEOUT")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ttlMs": 1000}, "EXPIRED"),
        ({"timeoutBudgetMs": 1000}, "TIMEOUT"),
        ({"ttlMs": 1000, "timeoutBudgetMs": 900}, "TIMEOUT"),
    ],
)
@pytest.mark.parametrize("held_by", ["nobody", "a worker", "a dead worker"])
def test_a_task_whose_time_ends_during_a_call_says_which_time(world: World, fields, code, held_by) -> None:
    held = world.claim(world.accept(**fields).task_id)
    sent = world.send(held, deadline_at=held.deadline_at)
    if held_by == "nobody":
        received([Receipt(held.task_id, sent.number, clock.now(), worker=world.boot, released=True)])
    if held_by == "a dead worker":
        lapse(world.boot)
    sweep.sweep(held.deadline_at + dt.timedelta(seconds=3))
    ended = task(held.task_id)
    assert (ended["state"], ended["error_code"]) == ("TIMEOUT", code)


def test_a_report_that_time_ran_out_says_which_time(world: World) -> None:
    held = world.claim(world.accept(ttlMs=1000).task_id)
    sent = world.send(held, deadline_at=held.deadline_at)
    body = dumps({"attemptKey": str(sent.attempt_key), "status": "FAILED", "error": {"code": "TIMEOUT"}})
    report.result(held.task_id, sent.attempt_key, body, held.deadline_at + dt.timedelta(seconds=1))
    assert (task(held.task_id)["state"], task(held.task_id)["error_code"]) == ("TIMEOUT", "EXPIRED")


def test_a_farewell_gives_everything_unsent_back(world: World) -> None:
    held = world.claim(world.accept().task_id)
    workers.renew(world.boot, 1)
    assert workers.farewell(world.boot) == [held.task_id]
    assert task(held.task_id)["waiting"]


def test_a_failed_attempt_waits_for_its_retry(world: World) -> None:
    sent = world.running()
    due = clock.now() + dt.timedelta(seconds=1)
    assert world.settle(sent, Retry(due, "TIMEOUT"), failed()).state == "RETRY_WAIT"
    row = task(sent.task.task_id)
    assert (row["waiting"], row["due_at"], row["outcome"]) == (True, due, None)
    assert claim([sent.task.task_id], world.boot, 1, clock.now()) == []
    assert world.claim(sent.task.task_id, now=due).attempts == 1


def test_a_retry_by_hand_begins_another_round(world: World) -> None:
    sent = world.running(callback=CALLBACK, timeoutBudgetMs=60_000)
    world.settle(sent, GiveUp(TaskState.FAILED, "REJECTED", "no"), failed())
    later = clock.now() + HOUR
    retry(sent.task.task_id, "support", later)
    row = task(sent.task.task_id)
    assert (row["state"], row["outcome"], row["round"], row["max_attempts"], row["error_code"]) == (
        "RECEIVED", None, 2, 6, None,
    )  # fmt: skip
    assert row["deadline_at"] == later + dt.timedelta(seconds=60)
    again = world.send(world.claim(sent.task.task_id, now=later))
    assert (again.number, world.settle(again).state) == (2, "SUCCEEDED")
    assert len({one["id"] for one in callbacks_of(sent.task.task_id)}) == 2
    with pytest.raises(StateConflict):
        retry(sent.task.task_id, "support", later)


def test_a_callback_that_a_retry_by_hand_overtook_is_not_told_any_more(world: World) -> None:
    sent = world.running(callback=CALLBACK)
    world.settle(sent, GiveUp(TaskState.FAILED, "REJECTED", "no"), failed())
    retry(sent.task.task_id, "support", clock.now())
    again = world.send(world.claim(sent.task.task_id))
    world.settle(again)
    claimed = callbacks.claim(clock.now() + HOUR, 10_000)
    first, second = callbacks_of(sent.task.task_id)
    assert [one.id for one in claimed if one.subject_id == sent.task.task_id] == [second["id"]]
    assert (first["state"], second["state"]) == ("SUPERSEDED", "PENDING")


def test_a_callback_waits_for_its_turn_while_a_retry_by_hand_is_under_way(world: World) -> None:
    sent = world.running(callback=CALLBACK)
    world.settle(sent, GiveUp(TaskState.FAILED, "REJECTED", "no"), failed())
    retry(sent.task.task_id, "support", clock.now())
    claimed = callbacks.claim(clock.now() + HOUR, 10_000)
    assert sent.task.task_id in [one.subject_id for one in claimed]


def taken_up_and_killed(world: World, task_id: uuid.UUID, times: int) -> None:
    for _ in range(times):
        boot = uuid.uuid4()
        world.claim(task_id, boot=boot)
        lapse(boot)
        sweep.sweep(clock.now())


def test_a_task_that_kills_whoever_takes_it_up_ends_after_three_times(world: World) -> None:
    task_id = world.accept(callback=CALLBACK, retry={"maxAttempts": 1}).task_id
    taken_up_and_killed(world, task_id, 2)
    assert (task(task_id)["state"], task(task_id)["waiting"]) == ("RECEIVED", True)
    taken_up_and_killed(world, task_id, 1)
    row = task(task_id)
    assert (row["state"], row["error_code"], row["attempts"]) == ("FAILED", "INTERNAL_ERROR", 0)
    assert "3 times" in row["error_message"]
    assert events(task_id) == ["RECEIVED", "WORKER_LOST", "WORKER_LOST", "FAILED"]
    assert len(callbacks_of(task_id)) == 1


def test_a_task_with_more_attempts_allowed_is_taken_up_as_often(world: World) -> None:
    task_id = world.accept().task_id
    rows("UPDATE routing_task SET max_attempts = 5 WHERE id = %s RETURNING 1", task_id)
    taken_up_and_killed(world, task_id, 4)
    assert task(task_id)["state"] == "RECEIVED"
    taken_up_and_killed(world, task_id, 1)
    assert task(task_id)["state"] == "FAILED"


def test_a_worker_that_says_farewell_strikes_nobody(world: World) -> None:
    held = world.claim(world.accept().task_id)
    workers.renew(world.boot, 1)
    workers.farewell(world.boot)
    assert (task(held.task_id)["strikes"], events(held.task_id)) == (0, ["RECEIVED"])


def test_a_retry_by_hand_forgives_the_strikes(world: World) -> None:
    task_id = world.accept().task_id
    taken_up_and_killed(world, task_id, 3)
    retry(task_id, "support", clock.now())
    assert (task(task_id)["state"], task(task_id)["strikes"]) == ("RECEIVED", 0)


KILLED = """
import os, sys, uuid, django
django.setup()
from django.db import connections
connections["default"].settings_dict["NAME"] = sys.argv[1]
from common import clock
from routing.services import workers
from routing.services.claim import claim
boot = uuid.UUID(sys.argv[2])
workers.renew(boot, 1)
assert claim([uuid.UUID(sys.argv[3])], boot, 1, clock.now())
os.kill(os.getpid(), 9)
"""


def test_a_process_that_is_killed_with_a_task_in_hand_counts_as_a_strike(world: World) -> None:
    task_id, boot = world.accept().task_id, uuid.uuid4()
    name = connection.settings_dict["NAME"]
    ended = subprocess.run([sys.executable, "-c", KILLED, name, str(boot), str(task_id)], check=False, timeout=60)
    assert ended.returncode == -9
    assert task(task_id)["worker"] == boot
    rows("UPDATE routing_worker SET expires_at = now() - interval '1 minute' WHERE boot_id = %s RETURNING 1", boot)
    sweep.sweep(clock.now())
    assert (task(task_id)["waiting"], task(task_id)["strikes"]) == (True, 1)

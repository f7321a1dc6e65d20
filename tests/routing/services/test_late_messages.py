"""Late, doubled and foreign messages change nothing."""

import datetime as dt
import uuid

from common import clock
from routing.services import partitions, sweep
from routing.services.dispatch import dispatch
from routing.services.receipt import Receipt, received
from routing.services.settle import settle
from routing.trip import Dispatch, GiveUp, Retry, Settlement, Succeed
from tests.routing.services.world import World, answered, failed, rows, task


def retried(world: World) -> Dispatch:
    """An attempt that failed; its task is held again by the same worker, for the second one."""
    first = world.running()
    due = clock.now()
    world.settle(first, Retry(due, "TIMEOUT"), failed())
    world.claim(first.task.task_id, now=due)
    return first


def test_a_doubled_settlement_does_not_touch_the_next_attempts_claim(world: World) -> None:
    first = retried(world)
    assert not world.settle(first).applied
    assert task(first.task.task_id)["state"] == "RETRY_WAIT"


def test_an_old_claim_cannot_send_the_next_attempt(world: World) -> None:
    first = retried(world)
    assert dispatch([world.sending(first.task)], world.boot) == set()


def test_an_old_attempts_settlement_and_receipt_do_not_count_for_the_new_one(world: World) -> None:
    first = retried(world)
    row = rows("SELECT attempts FROM routing_task WHERE id = %s", first.task.task_id)[0]
    first.task.attempts = row["attempts"]
    second = world.send(first.task)
    assert second.number == 2
    old = Settlement(first.task.task_id, 1, Succeed(), answered(), clock.now(), worker=world.boot)
    assert not settle([old])[0].applied
    assert received([Receipt(first.task.task_id, 1, clock.now(), worker=world.boot)]) == set()
    assert task(first.task.task_id)["state"] == "DISPATCHED"


def test_another_workers_settlement_does_not_count(world: World) -> None:
    sent = world.running()
    assert not world.settle(sent, worker=uuid.uuid4()).applied
    assert not world.settle(sent, worker=None, attempt_key=uuid.uuid4()).applied
    assert world.settle(sent, worker=None, attempt_key=sent.attempt_key).applied


def test_a_claimed_task_ends_without_an_attempt_where_nobody_may_take_it(world: World) -> None:
    held = world.claim(world.accept().task_id)
    gone = GiveUp("FAILED", "LOOP_DETECTED", "it came back")
    [settled] = settle([Settlement(held.task_id, 0, gone, None, clock.now(), worker=world.boot)])
    assert (settled.state, task(held.task_id)["attempts"]) == ("FAILED", 0)


def test_partitions_are_kept_ahead_and_nothing_recent_is_dropped(world: World) -> None:
    task_id = world.accept().task_id
    later = clock.now() + dt.timedelta(days=60)
    assert partitions.keep(later) > 0
    assert partitions.keep(later) == 0
    assert partitions.drop_old(clock.now(), 365) == 0
    assert task(task_id)


def test_weeks_out_of_retention_are_dropped_with_what_they_held(world: World) -> None:
    long_ago = clock.now() - dt.timedelta(days=100)
    partitions.keep(long_ago)
    task_id = world.accept(now=long_ago, correlationId="old").task_id
    sweep.expire(task_id, clock.now())
    assert partitions.drop_old(clock.now(), 30) > 0
    assert rows("SELECT id FROM routing_task WHERE id = %s", task_id) == []
    assert not world.accept(correlationId="old").replayed

"""One task's way through accept, claim, dispatch and settle."""

import uuid

from common import clock
from common.json import parse
from routing.services.claim import claim
from routing.services.dispatch import dispatch
from tests.routing.services.world import World, callbacks_of, events, task


def test_a_task_that_goes_well_leaves_every_step_behind(world: World) -> None:
    sent = world.running()
    assert world.settle(sent).state == "SUCCEEDED"
    row = task(sent.task.task_id)
    assert (row["state"], row["outcome"], row["attempts"], row["waiting"]) == ("SUCCEEDED", "SUCCEEDED", 1, False)
    assert events(sent.task.task_id) == ["RECEIVED", "ROUTED", "DISPATCHED", "SUCCEEDED"]
    result = parse(bytes(row["result"]))
    assert result["agent"] == {"agentId": "worker", "version": "2.1.0", "instanceId": "i1"}
    assert b'{"y": 1.10}' in bytes(row["result"])
    assert world.nudged == [sent.task.task_id] == world.ended


def test_a_final_state_makes_one_callback_with_the_result(world: World) -> None:
    sent = world.running(
        callback={"type": "http", "url": "https://shop.example/cb", "authToken": "s3cret"}, correlationId="o1"
    )
    settled = world.settle(sent, lease_callbacks=True)
    [row] = callbacks_of(sent.task.task_id)
    body = parse(bytes(row["body"]))
    assert (body["state"], body["correlationId"], body["late"]) == ("SUCCEEDED", "o1", False)
    assert settled.callbacks[0].id == row["id"] == task(sent.task.task_id)["callback_id"]
    assert b"s3cret" not in bytes(task(sent.task.task_id)["request"])


def test_a_second_settlement_changes_nothing(world: World) -> None:
    sent = world.running()
    assert world.settle(sent).applied
    assert not world.settle(sent).applied
    assert len(events(sent.task.task_id)) == 4


def test_nobody_claims_a_task_twice(world: World) -> None:
    task_id = world.accept().task_id
    world.claim(task_id)
    assert claim([task_id], world.boot, 10, clock.now()) == []


def test_a_dispatch_needs_the_claim(world: World) -> None:
    held = world.claim(world.accept().task_id)
    other = world.sending(held)
    assert dispatch([other], uuid.uuid4()) == set()
    assert dispatch([other], world.boot) == {held.task_id}
    assert dispatch([other], world.boot) == {held.task_id}, "a repeat after a lost answer"
    assert dispatch([world.sending(held)], world.boot) == set()

"""One row that the database refuses does not take its neighbours with it."""

from common import clock
from routing.services import moves
from routing.services.dispatch import dispatch
from routing.services.settle import move_of, settle
from routing.trip import GiveUp, Settlement, Succeed
from tests.routing.services.world import World, answered, events, failed, task


def test_odd_characters_in_an_agents_error_are_stored_as_text(world: World) -> None:
    sent = world.running()
    decision = GiveUp("FAILED", "AGENT_FAILED", "a\0b\ud83d", details={"k\0": "\ud83d"})
    assert world.settle(sent, decision, failed()).applied
    assert task(sent.task.task_id)["error_message"] == "a\ufffdb\ufffd"


def test_a_settlement_that_cannot_be_stored_ends_its_task_alone(world: World) -> None:
    sent = [world.running() for _ in range(5)]
    ends = [Settlement(s.task.task_id, 1, Succeed(), answered(), clock.now(), worker=world.boot) for s in sent]
    made = [move_of(one) for one in ends]
    made[2] = moves.replace(made[2], detail=None, event="X" * 40)  # wider than its column
    settled = {one.task_id: one.state for one in moves.apply(made)}
    assert [settled[s.task.task_id] for s in sent] == ["SUCCEEDED"] * 2 + ["FAILED"] + ["SUCCEEDED"] * 2
    assert task(sent[2].task.task_id)["error_code"] == "BAD_RESPONSE"


def test_an_attempt_that_cannot_be_stored_is_not_sent(world: World) -> None:
    held = [world.claim(world.accept().task_id) for _ in range(3)]
    sendings = [world.sending(one) for one in held]
    sendings[1].channel = "c" * 40
    assert dispatch(sendings, world.boot) == {held[0].task_id, held[2].task_id}
    assert events(held[1].task_id) == ["RECEIVED"]


def test_the_same_task_twice_in_one_batch_settles_once(world: World) -> None:
    sent = world.running()
    ends = [Settlement(sent.task.task_id, 1, Succeed(), answered(), clock.now(), worker=world.boot)] * 2
    assert sorted(one.applied for one in settle(ends)) == [False, True]

"""Looking for due work: by priority, then a fair share for every lane."""

import pytest

from common import clock
from routing.services import lanes
from routing.services.claim import claim, claim_due
from tests.routing.services.world import World, rows


@pytest.fixture(autouse=True)
def _nothing_else_waits() -> None:
    lanes._turns.clear()
    rows("UPDATE routing_task SET waiting = false WHERE waiting RETURNING id")


def test_a_backlog_does_not_hold_up_another_client(world: World) -> None:
    for _ in range(30):
        world.accept(client="flood")
    single = world.accept(client="single").task_id
    got = claim(None, world.boot, 10, clock.now())
    assert len(got) == 10
    assert single in {one.task_id for one in got}


def test_only_the_first_of_each_lane_is_claimed_past_a_backlog(world: World) -> None:
    first, second = (world.accept(client="flood").task_id for _ in range(2))
    single, high = world.accept(client="single").task_id, world.accept(client="flood", metadata={"priority": "high"})
    ids = [second, single, high.task_id]
    got = claim(ids, world.boot, 10, clock.now(), only_first=True)
    assert {one.task_id for one in got} == {single, high.task_id}
    assert [one.task_id for one in claim([second, first], world.boot, 10, clock.now(), only_first=True)] == [first]


def test_high_priority_goes_first_and_low_last(world: World) -> None:
    for priority in ("low", "normal", "high"):
        world.accept(metadata={"priority": priority})
    assert [one.priority for one in claim(None, world.boot, 2, clock.now())] == [0, 1]


def test_lanes_take_turns_when_there_is_less_room_than_lanes(world: World) -> None:
    for client in "abcdef":
        for _ in range(3):
            world.accept(client=client)
    got = [claim(None, world.boot, 2, clock.now()) for _ in range(3)]
    assert sorted(one.client for part in got for one in part) == list("abcdef")


def test_what_is_not_due_yet_is_passed_over(world: World) -> None:
    for client in "abc":
        world.accept(client=client, notBefore="2099-01-01T00:00:00Z")
    task_id = world.accept(client="d").task_id
    assert [one.task_id for one in claim(None, world.boot, 10, clock.now())] == [task_id]


def test_refused_lanes_are_left_alone_and_named(world: World) -> None:
    world.accept()
    other = world.accept(client="other").task_id
    look = claim_due(world.boot, 10, clock.now(), lambda _, lane: 0 if lane.client == "shop" else 10)
    assert [one.task_id for one in look.tasks] == [other]
    assert (look.passed_over, look.is_short, look.has_more) == ({(world.namespace, "echo"): 1}, False, False)
    assert len(claim(None, world.boot, 10, clock.now())) == 1


def test_no_more_is_claimed_of_an_ability_than_it_takes(world: World) -> None:
    for client in "aaaaaabbbbbb":
        world.accept(client=client)
    look = claim_due(world.boot, 100, clock.now(), lambda *_: 4)
    assert sorted(one.client for one in look.tasks) == list("aabb")
    assert (look.passed_over, look.has_left) == ({(world.namespace, "echo"): 1}, True)


def test_a_look_that_did_not_see_all_lanes_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.services.claim._DEPTH", 2)
    for client in "abcdefgh":
        world.accept(client=client)
    first, second = (claim_due(world.boot, 100, clock.now()) for _ in range(2))
    assert (len(first.tasks), first.has_more, len(second.tasks), second.has_more) == (6, True, 2, False)


def test_many_lanes_that_are_not_due_hide_none_that_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_STEPS", 4)
    for number in range(12):
        world.accept(client=f"b{number:02}", notBefore="2099-01-01T00:00:00Z")
    last = world.accept(client="c").task_id
    for _ in range(3):  # one that is always due and comes first
        world.accept(client="a")
    claimed = [one.task_id for _ in range(2) for one in claim(None, world.boot, 1, clock.now())]
    assert last in claimed


def test_a_round_ends_where_it_began_though_nothing_may_be_claimed(world: World) -> None:
    for client in "abc":
        world.accept(client=client)
    claim(None, world.boot, 1, clock.now())  # the turn is somewhere in the middle now
    look = claim_due(world.boot, 10, clock.now(), lambda *_: 0)
    assert (look.tasks, look.has_more, look.passed_over) == ([], False, {(world.namespace, "echo"): 1})

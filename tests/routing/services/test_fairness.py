"""Looking for due work: by priority, then a fair share for every lane."""

import datetime as dt

import pytest

from common import clock
from routing.services import lanes
from routing.services.claim import claim
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


def test_refused_lanes_are_left_alone(world: World) -> None:
    world.accept()
    other = world.accept(client="other").task_id
    refuses = lambda priority, namespace, ability, client: client == "shop"  # noqa: E731
    assert [one.task_id for one in claim(None, world.boot, 10, clock.now(), refuses=refuses)] == [other]
    assert len(claim(None, world.boot, 10, clock.now() + dt.timedelta(seconds=1))) == 1

"""Several processes with tasks in line share an ability's slots."""

import asyncio
import time
import uuid

import pytest

from routing.engine.evening import KEEP_S
from routing.engine.slots import Slots
from routing.limits import turns
from routing.loads import Loads

ECHO, PLACE = ("n", "echo"), ("n", "a", "i1")


@pytest.fixture(autouse=True)
def _committed():
    """No database here."""


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    monkeypatch.setattr("routing.engine.evening.YIELD_AGAIN_S", 600.0)


def given_away(own, least, releases, *, since=0.0):
    """How many of so many slots that come free are left to another process."""

    async def main():
        slots = Slots(Loads())
        tasks = [asyncio.ensure_future(slots.wait(ECHO, frozenset({"a"}), 30.0)) for _ in range(50)]
        await asyncio.sleep(0)
        slots.others_wait({} if least is None else {ECHO: least})
        slots._evening.had_none[ECHO] = time.monotonic() - since
        for _ in range(own):
            slots.acquire([PLACE, ECHO])
        for _ in range(releases):
            slots.release([PLACE, ECHO])
        left = slots.loads.own(ECHO) - (own - releases)
        for task in tasks:
            task.cancel()
        return left

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("own", "least", "since", "expected"),
    [
        (20, None, 0, 0),  # nobody else waits
        (20, 0, 0, 1),  # one at a time, until the others' counts are known
        (10, 8, 0, 1),
        (10, 9, 0, 0),  # as even as can be
        (1, 0, KEEP_S, 1),
        (1, 0, -600, 0),  # it has its one only since now
    ],
)
def test_a_slot_is_left_to_a_process_with_fewer(own, least, since, expected):
    assert given_away(own, least, min(own, 5), since=since) == expected


def test_processes_tell_each_other_what_they_hold(settings):
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    assert turns.exchange("one", {ECHO: 5}) == {}
    assert turns.exchange("two", {ECHO: 3, ("n", "other"): 1}) == {ECHO: 5}
    assert turns.exchange("three", {("n", "other"): 9, ECHO: 0}) == {ECHO: 3, ("n", "other"): 1}


def test_who_does_not_wait_any_more_is_forgotten(settings, monkeypatch):
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    turns.exchange("one", {ECHO: 5})
    monkeypatch.setattr(turns, "FRESH_MS", -1)
    assert turns.exchange("two", {ECHO: 3}) == {}

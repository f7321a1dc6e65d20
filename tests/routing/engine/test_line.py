"""Whose turn it is at an ability's next free slot."""

import asyncio
import datetime as dt
import time
from types import SimpleNamespace

import pytest

from routing.engine.slots import Slots
from routing.loads import Loads
from routing.services.lanes import Lane

ECHO, PLACE = ("n", "echo"), ("n", "a", "i1")
HIGH, NORMAL, LOW = 0, 1, 2
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(autouse=True)
def _committed():
    """No database here."""


async def line_up(slots, *turns, ages=None):
    """Tasks in line, in this order, due for so many seconds; the list fills as they are woken."""
    woken = []

    async def one(number, turn):
        since = NOW - dt.timedelta(seconds=ages[number] if ages else 0)
        if await slots.wait(ECHO, frozenset({"a"}), 5.0, turn, since):
            woken.append(number)

    tasks = [asyncio.ensure_future(one(number, turn)) for number, turn in enumerate(turns)]
    await asyncio.sleep(0)
    return woken, tasks


async def free(slots, times):
    for _ in range(times):
        slots.acquire([PLACE])
        slots.release([PLACE])
        for _ in range(5):
            await asyncio.sleep(0)


def order(*turns, ages=None):
    async def main():
        slots = Slots(Loads())
        woken, tasks = await line_up(slots, *turns, ages=ages)
        await free(slots, len(turns))
        await asyncio.gather(*tasks)
        return woken

    return asyncio.run(main())


def test_high_priority_is_woken_first_and_low_last():
    assert order((LOW, "a"), (LOW, "b"), (NORMAL, "a"), (HIGH, "a")) == [3, 2, 0, 1]


def test_a_single_task_waits_for_one_of_another_clients_many():
    assert order(*[(NORMAL, "flood")] * 20, (NORMAL, "single")).index(20) == 1


def test_clients_take_turns_each_in_its_own_order():
    assert order((NORMAL, "a"), (NORMAL, "a"), (NORMAL, "b"), (NORMAL, "b")) == [0, 2, 1, 3]


def test_of_one_clients_the_one_that_has_been_due_for_longest_is_first_however_late_it_came():
    assert order(*[(NORMAL, "a")] * 4, ages=[1, 3, 2, 3]) == [1, 3, 2, 0]


def test_age_does_not_take_another_clients_turn():
    turns = [(NORMAL, "a"), (NORMAL, "a"), (NORMAL, "b")]
    assert order(*turns, ages=[9, 8, 1]) == [0, 2, 1]


def test_a_line_full_of_low_takes_high_ones_and_clients_that_are_not_in_it_yet():
    async def main():
        slots = Slots(Loads(), limit=3)
        _, tasks = await line_up(slots, *[(LOW, "flood")] * 3)
        full = [slots.is_full(ECHO, turn) for turn in ((LOW, "flood"), (HIGH, "flood"), (LOW, "single"))]
        for task in tasks:
            task.cancel()
        return full

    assert asyncio.run(main()) == [True, False, False]


def test_even_clients_that_are_new_to_it_do_not_make_a_line_endless():
    async def main():
        slots = Slots(Loads(), limit=3)
        _, tasks = await line_up(slots, *[(LOW, f"c{number}") for number in range(12)])
        full = slots.is_full(ECHO, (LOW, "single"))
        for task in tasks:
            task.cancel()
        return full

    assert asyncio.run(main()) is True


def test_who_had_its_turn_in_vain_has_the_next_one():
    async def main():
        slots = Slots(Loads())
        woken, tasks = await line_up(slots, *[(LOW, "flood")] * 3)
        again = asyncio.ensure_future(slots.wait(ECHO, frozenset({"a"}), 5.0, (LOW, "single"), NOW, ahead=True))
        await asyncio.sleep(0)
        await free(slots, 1)
        for task in tasks:
            task.cancel()
        return again.done(), woken

    assert asyncio.run(main()) == (True, [])


def test_a_client_that_comes_to_a_full_line_gets_its_equal_part():
    async def main():
        slots = Slots(Loads(), limit=6)
        _, tasks = await line_up(slots, *[(LOW, "flood")] * 6, (LOW, "b"))
        takes = [slots.takes(LOW, Lane(*ECHO, client)) for client in ("flood", "b", "c")]
        high = slots.takes(HIGH, Lane(*ECHO, "flood"))
        for task in tasks:
            task.cancel()
        return takes, high

    assert asyncio.run(main()) == ([-1, 2, 2], 6)


def test_slots_that_some_could_not_use_are_looked_past_them_for_once_a_second(monkeypatch):
    monkeypatch.setattr("routing.engine.slots.capacity.free", lambda *_: 7)
    now = 1000.0
    monkeypatch.setattr("routing.engine.slots.time", SimpleNamespace(monotonic=lambda: now))
    slots, lane = Slots(Loads(), limit=0), Lane(*ECHO, "a")
    before, is_full = slots.takes(LOW, lane), slots.is_full(ECHO, (LOW, "a"))
    found = [before, slots.takes(LOW, lane)]
    for now in (1001.5, 1006.5):  # noqa: B007 - the clock's closure reads it
        found.append(slots.takes(LOW, lane))
    assert (is_full, found) == (True, [7, 0, 407, 7])


def test_a_line_is_as_long_as_a_second_s_slots_will_serve():
    async def main():
        slots = Slots(Loads(), limit=100)
        _, tasks = await line_up(slots, *[(LOW, "flood")] * 60)
        before = slots.takes(LOW, Lane(*ECHO, "flood"))
        slots.measure(time.monotonic())  # not a second old yet
        await free(slots, 30)
        slots.measure(time.monotonic() + 1.0)
        after = slots.takes(LOW, Lane(*ECHO, "flood"))
        for task in tasks:
            task.cancel()
        return before, after < 40 - 30

    assert asyncio.run(main()) == (40, True)


def test_who_gives_up_leaves_the_line():
    async def main():
        slots = Slots(Loads())
        woken, tasks = await line_up(slots, (HIGH, "a"), (HIGH, "b"))
        tasks[0].cancel()
        await asyncio.sleep(0)
        await free(slots, 1)
        assert not slots.is_awaited()
        return woken

    assert asyncio.run(main()) == [1]

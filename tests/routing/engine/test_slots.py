"""Waiting for a busy instance."""

import asyncio

import pytest

from routing.engine.slots import NORMAL, Slots
from routing.loads import Loads

ECHO = ("n", "echo")
SLOT = ("n", "a", "i1")


@pytest.fixture(autouse=True)
def _committed():
    """No database here."""


def waiting(slots, count, ability=ECHO):
    return [asyncio.ensure_future(slots.wait(ability, frozenset({"a"}), 5.0)) for _ in range(count)]


async def settled(tasks):
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


def test_a_released_slot_wakes_the_first_in_line():
    async def main():
        slots = Slots(Loads())
        slots.acquire([SLOT, ECHO])
        tasks = waiting(slots, 3)
        await asyncio.sleep(0)
        slots.release([SLOT, ECHO])
        return await settled(tasks)

    assert asyncio.run(main()) == [True, False, False]


def test_another_agents_slot_wakes_nobody():
    async def main():
        slots = Slots(Loads())
        tasks = waiting(slots, 1)
        await asyncio.sleep(0)
        slots.acquire([("n", "b", "i1")])
        slots.release([("n", "b", "i1")])
        return await settled(tasks)

    assert asyncio.run(main()) == [False]


def test_waiting_ends_by_itself():
    async def main():
        return await Slots(Loads()).wait(ECHO, frozenset({"a"}), 0.01)

    assert asyncio.run(main()) is False


def test_an_ability_with_enough_waiting_is_full_until_half_have_gone():
    async def main():
        slots = Slots(Loads(), limit=4)
        tasks = waiting(slots, 4)
        await asyncio.sleep(0)
        seen = [slots.is_full(ECHO, NORMAL), slots.has_reopened(ECHO)]
        slots.pass_over({ECHO: 1})
        seen.append(slots.has_reopened(ECHO))
        for _ in range(2):
            slots.acquire([SLOT, ECHO])
            slots.release([SLOT, ECHO])
        await settled(tasks)
        return [*seen, slots.is_full(ECHO, NORMAL), slots.has_reopened(ECHO), slots.has_reopened(ECHO)]

    assert asyncio.run(main()) == [True, False, False, False, True, False]

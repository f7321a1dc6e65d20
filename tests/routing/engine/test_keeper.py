"""Timed duties."""

import asyncio

import pytest

from routing.engine.keeper import each


@pytest.fixture(autouse=True)
def _committed():
    """No database here."""


def test_a_duty_ends_also_when_it_is_hurried_in_that_very_moment():
    async def main():
        hurry, ran = asyncio.Event(), asyncio.Event()

        async def duty():
            ran.set()

        task = asyncio.create_task(each(60, hurry, duty))
        await ran.wait()
        await asyncio.sleep(0.01)  # it waits by now
        hurry.set()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=1)
        return task.cancelled()

    assert asyncio.run(main())

"""Waits hear of endings by hint, and find what no hint told them."""

import asyncio
import time
import uuid

import pytest

from routing import endings
from routing.endings import NEVER, Hub


@pytest.fixture
def task_id():
    return uuid.uuid4()


def with_hub(work, progress=()):
    """Run `work(hub)` in a loop; `progress` is what the re-read finds, and may be changed meanwhile."""

    async def main():
        hub = Hub(read=lambda ids: [row for row in progress if row[0] in ids])
        try:
            return await work(hub)
        finally:
            hub.close()

    return asyncio.run(main())


def test_a_wait_for_nothing_ends_in_time(task_id):
    began = time.monotonic()
    assert with_hub(lambda hub: hub.wait(task_id, 0.2)) is False
    assert 0.15 < time.monotonic() - began < 1


def test_a_task_that_ended_before_the_wait_is_found_at_once(task_id):
    began = time.monotonic()
    assert with_hub(lambda hub: hub.wait(task_id, 5.0), [(task_id, 4, True)]) is True
    assert time.monotonic() - began < 0.5


def test_a_hint_ends_the_wait_at_once(task_id):
    async def work(hub):
        waiting = asyncio.ensure_future(hub.wait(task_id, 5.0))
        while not hub._listener.is_alive():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        began = time.monotonic()
        endings.publish([task_id])
        return await waiting, time.monotonic() - began

    ended, took = with_hub(work)
    assert ended
    assert took < 0.5


def test_what_no_hint_told_is_found_within_about_a_second(task_id):
    progress = []

    async def work(hub):
        waiting = asyncio.ensure_future(hub.wait(task_id, 5.0))
        await asyncio.sleep(0.1)
        progress.append((task_id, 4, True))
        return await waiting

    assert with_hub(work, progress) is True


@pytest.mark.parametrize(("seen", "changed"), [(2, True), (3, False), (NEVER, False)])
def test_a_change_is_an_event_that_was_not_seen(task_id, seen, changed):
    assert with_hub(lambda hub: hub.wait_change(task_id, 0.3, seen), [(task_id, 3, False)]) is changed


def test_all_waits_are_read_in_one_query():
    reads = []

    async def main():
        hub = Hub(read=lambda ids: reads.append(len(ids)) or [])
        await asyncio.gather(*(hub.wait(uuid.uuid4(), 0.5) for _ in range(100)))
        hub.close()

    asyncio.run(main())
    assert len(reads) <= 3
    assert max(reads) == 100


def test_a_new_wait_has_itself_looked_at_and_not_all_others():
    reads = []

    async def main():
        hub = Hub(read=lambda ids: reads.append(len(ids)) or [])
        hub._listener.stop()  # whose connection has everything looked at
        many = asyncio.gather(*(hub.wait(uuid.uuid4(), 0.6) for _ in range(100)))
        await asyncio.sleep(0.3)
        await asyncio.gather(many, hub.wait(uuid.uuid4(), 0.1))
        hub.close()

    asyncio.run(main())
    assert 1 in reads


def test_a_database_that_is_away_breaks_no_wait(task_id):
    def away(_):
        raise RuntimeError("away")

    async def main():
        hub = Hub(read=away)
        try:
            return await hub.wait(task_id, 0.3)
        finally:
            hub.close()

    assert asyncio.run(main()) is False

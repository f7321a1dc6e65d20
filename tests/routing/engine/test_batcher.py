"""Batches form by themselves and nobody's error is another's."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError

from routing.engine.batcher import Batcher


def run(work, items, limit=100):
    """Do all items at once; returns their results or exceptions."""

    async def main():
        with ThreadPoolExecutor(2) as executor:
            batcher = Batcher(work, executor, limit)
            return await asyncio.gather(*(batcher.do(item) for item in items), return_exceptions=True)

    return asyncio.run(main())


def test_each_item_gets_its_own_result():
    assert run(lambda items: [2 * item for item in items], range(5)) == [0, 2, 4, 6, 8]


def test_items_that_come_together_make_one_batch():
    sizes = []
    run(lambda items: [sizes.append(len(items))] * len(items), range(7))
    assert sizes == [7]


def test_a_batch_has_a_limit():
    sizes = []
    run(lambda items: [sizes.append(len(items))] * len(items), range(7), limit=3)
    assert sizes == [3, 3, 1]


def test_what_comes_while_a_batch_is_under_way_makes_up_the_next():
    sizes, started, go = [], threading.Event(), threading.Event()

    def work(items):
        sizes.append(len(items))
        started.set()
        go.wait(5)
        return items

    async def main():
        with ThreadPoolExecutor(2) as executor:
            batcher = Batcher(work, executor)
            first = asyncio.ensure_future(batcher.do(1))
            await asyncio.to_thread(started.wait, 5)
            others = [asyncio.ensure_future(batcher.do(n)) for n in range(4)]
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(first, *others)

    asyncio.run(main())
    assert sizes == [1, 4]


def test_a_bad_item_fails_alone():
    def work(items):
        if 3 in items:
            raise ValueError("three")
        return items

    results = run(work, range(5))
    assert results[:3] + results[4:] == [0, 1, 2, 4]
    assert isinstance(results[3], ValueError)


def test_a_lost_database_is_everybodys_and_tried_once():
    calls = []

    def work(items):
        calls.append(items)
        raise OperationalError("gone")

    assert all(isinstance(result, OperationalError) for result in run(work, range(5)))
    assert len(calls) == 1


def test_a_single_item_waits_for_no_timer():
    async def main():
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(lambda items: items, executor)
            await batcher.do(0)
            began = time.perf_counter()
            await batcher.do(1)
            return time.perf_counter() - began

    assert asyncio.run(main()) < 0.05


@pytest.fixture(autouse=True)
def _committed():
    """No database here."""

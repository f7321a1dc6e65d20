"""Threads that work for one event loop."""

import asyncio
import threading

import pytest

from reach_platform.front.threads import Threads


@pytest.fixture
def threads():
    made = Threads(2, "test")
    yield made
    made.close()


def test_what_the_work_returns_comes_back(threads):
    async def double_all():
        return await asyncio.gather(*(threads.run(lambda number: number * 2, number) for number in range(100)))

    assert asyncio.run(double_all()) == [number * 2 for number in range(100)]


def test_what_the_work_raises_is_raised_and_the_thread_goes_on(threads):
    def broken(_):
        raise KeyError("broken")

    async def ask():
        for _ in range(5):
            with pytest.raises(KeyError):
                await threads.run(broken, None)
        return await threads.run(str, 1)

    assert asyncio.run(ask()) == "1"


def test_no_more_run_at_once_than_there_are_threads(threads):
    gate, running = threading.Event(), []

    def work(_):
        running.append(threading.current_thread().name)
        gate.wait(5)

    async def ask():
        calls = [asyncio.ensure_future(threads.run(work, None)) for _ in range(10)]
        while len(running) < 2:
            await asyncio.sleep(0.001)
        most = len(running)
        gate.set()
        await asyncio.gather(*calls)
        return most

    assert asyncio.run(ask()) == 2
    assert len(set(running)) == 2


def test_a_caller_that_gave_up_holds_nobody_up(threads):
    gate = threading.Event()

    async def ask():
        left = asyncio.ensure_future(threads.run(lambda _: gate.wait(5), None))
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        gate.set()
        return await threads.run(str, 2)

    assert asyncio.run(ask()) == "2"


def test_closed_threads_end_after_what_came_before(threads):
    async def ask():
        made = await threads.run(lambda _: threading.current_thread(), None)
        threads.close()
        return made

    thread = asyncio.run(ask())
    thread.join(5)
    assert not thread.is_alive()

"""Threads that work for one event loop, at a fraction of what an executor's futures cost.

An executor makes a future with a condition for every call, chains it to the loop's own, and wakes the loop for each.
Here a call is a tuple, and what is finished while the loop is on its way to look is seen by that one look.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

_Call = tuple[Callable[[Any], Any], Any, "asyncio.Future[Any]"]
_Done = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Threads:
    """`count` daemon threads, started with the first call; all calls come from one event loop."""

    def __init__(self, count: int, name: str):
        self._count, self._name = count, name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._done: deque[_Done] = deque()
        self._waking = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, work: Callable[[Given], Made], given: Given) -> Made:
        """What `work(given)` returns or raises, done on a thread; it goes on even if nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._start(loop)
        future: asyncio.Future[Made] = loop.create_future()
        self._calls.put((work, given, future))
        return await future

    def close(self) -> None:
        """Let each thread end after the calls that came before."""
        for _ in range(self._count):
            self._calls.put(None)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        for number in range(self._count):
            threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            work, given, future = call
            made, error = None, None
            try:
                made = work(given)
            except BaseException as raised:  # the caller's to deal with
                error = raised
            self._done.append((future, made, error))
            del call, work, given, future, made, error  # a waiting thread keeps no request alive
            if not self._waking:
                self._waking = True
                self._wake()

    def _wake(self) -> None:
        assert self._loop is not None  # noqa: S101 - for the type checker
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    def _look(self) -> None:
        self._waking = False  # first: what is done from here on wakes the loop anew
        while self._done:
            future, made, error = self._done.popleft()
            if future.done():
                continue  # cancelled
            if error is None:
                future.set_result(made)
            else:
                future.set_exception(error)

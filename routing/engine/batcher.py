"""Database work in batches: what comes while one batch is under way makes up the next, so nobody waits for a timer."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from django.db import InterfaceError, OperationalError

Item = TypeVar("Item")
Made = TypeVar("Made")

LIMIT = 100


class Batcher(Generic[Item, Made]):
    """Collects items on the event loop and has `work` do many at once on a thread of the executor.

    `work` gives one result for each item, in their order. Where the database is away everyone in the batch gets its
    error; any other error is pinned down to the item that causes it by doing the items one by one.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Made]], executor: Executor, limit: int = LIMIT):
        self._work, self._executor, self._limit = work, executor, limit
        self._waiting: deque[tuple[Item, asyncio.Future[Made]]] = deque()
        self._running: asyncio.Task[None] | None = None
        self.began_at: float | None = None  # monotonic time at which the batch that is under way began

    async def do(self, item: Item) -> Made:
        """The result for this item, once its batch is done; raises what `work` raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Made] = loop.create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = loop.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                count = min(self._limit, len(self._waiting))
                await self._do_all([self._waiting.popleft() for _ in range(count)])
        finally:
            self._running = None

    async def _do_all(self, batch: list[tuple[Item, asyncio.Future[Made]]]) -> None:
        try:
            made = await self._on_thread([item for item, _ in batch])
        except (OperationalError, InterfaceError) as error:
            _fail(batch, error)
        except Exception as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:
                for one in batch:
                    await self._do_all([one])
        else:
            for (_, future), result in zip(batch, made, strict=True):
                if not future.done():
                    future.set_result(result)

    async def _on_thread(self, items: list[Item]) -> Sequence[Made]:
        self.began_at = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._work, items)
        finally:
            self.began_at = None


def _fail(batch: list[tuple[Item, asyncio.Future[Made]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)

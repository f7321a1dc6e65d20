"""Chunks of an answer on their way to whoever follows the task: gathered for a moment, then events of its journey."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from common import clock
from routing.services.chunks import Chunked
from routing.trip import Dispatch

log = logging.getLogger(__name__)

EACH_S = 0.1


class Relay:
    """One attempt's; `close` before its end is put on record, so that no chunk comes after the end."""

    def __init__(self, write: Callable[[Chunked], Awaitable[None]], dispatch: Dispatch):
        self._write, self._dispatch = write, dispatch
        self._gathered: list[bytes] = []
        self._running: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self.has_begun = False  # whoever follows the task may have seen something

    def add(self, chunks: list[bytes]) -> None:
        """Take some; returns at once."""
        self._gathered += chunks
        self.has_begun |= bool(chunks)
        if self._running is None and self._gathered:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Write the rest."""
        self._closing.set()
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        while self._gathered:
            chunks, self._gathered = self._gathered, []
            task_id, number = self._dispatch.task.task_id, self._dispatch.number
            try:
                await self._write(Chunked(task_id, number, self._dispatch.attempt_key, clock.now(), tuple(chunks)))
            except Exception as error:  # the result holds them all
                log.warning("chunks are not relayed: %s", type(error).__name__)
            if not self._closing.is_set():
                await self._pause()
        self._running = None

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._closing.wait(), EACH_S)
        except TimeoutError:
            pass

"""What an agent reports over the connection that holds its attempt: put on record in the order in which it came."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from routing.services.held import Report
from routing.trip import Dispatch

log = logging.getLogger(__name__)

MOST_WAITING = 100  # of one attempt; a flood of progress beyond that says nothing new


class Reporting:
    """One attempt's; `close` before its end is put on record, so that no report comes after the end."""

    def __init__(self, write: Callable[[Report], Awaitable[None]], dispatch: Dispatch):
        self._write, self._dispatch = write, dispatch
        self._waiting: set[asyncio.Task[None]] = set()

    def add(self, kind: str, body: bytes) -> None:
        """Take one; returns at once."""
        if len(self._waiting) < MOST_WAITING:
            one = Report(kind, self._dispatch.task.task_id, self._dispatch.attempt_key, body)
            task = asyncio.get_running_loop().create_task(self._put(one))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        """Wait until all of them are on record."""
        if self._waiting:
            await asyncio.gather(*self._waiting)

    async def _put(self, one: Report) -> None:
        try:
            await self._write(one)
        except Exception as error:  # the result is what counts
            log.warning("a report of a task's agent is lost: %s", type(error).__name__)

"""Where hooks are told: one event loop on a thread of its own, in lanes, so that who hangs delays nobody else.

Everything that is handed over begins at once: how much that may be is decided when it is claimed.
"""

import asyncio
import concurrent.futures
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connections

from common.clock import now
from common.outbound import Outbound
from registry.addresses import allowed_networks
from registry.hooks import command, webhook
from registry.hooks.messages import Due, Tried

log = logging.getLogger(__name__)


class Lane(StrEnum):
    """Hooks that are well, those whose last try failed, and commands, of which each costs a process."""

    WELL = "well"
    FAILING = "failing"
    COMMANDS = "commands"


class Bounds(NamedTuple):
    """How much may be under way in this process."""

    overall: int
    per_hook: int


BOUNDS = {Lane.WELL: Bounds(100, 4), Lane.FAILING: Bounds(100, 4), Lane.COMMANDS: Bounds(16, 2)}


class Sender:
    """Sends in the background and hands the results to `record` in batches; after each batch `more` may claim anew.

    Both run on one thread, which has a database connection of its own."""

    def __init__(self, record: Callable[[Sequence[Tried], datetime], Any], more: Callable[[datetime], Any]):
        self._record, self._more = record, more
        self._lock = threading.Lock()
        self._under_way: dict[Lane, Counter[uuid.UUID]] = {lane: Counter() for lane in Lane}
        self._tried: list[Tried] = []
        self._writing: asyncio.Task[None] | None = None
        self._writer = concurrent.futures.ThreadPoolExecutor(1, "hook-results")
        self._out: Outbound | None = None
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="hooks", daemon=True).start()

    def under_way(self, lane: Lane) -> Counter[uuid.UUID]:
        """How many firings of each hook are being sent."""
        with self._lock:
            return self._under_way[lane].copy()

    def submit(self, dues: Sequence[Due], lane: Lane) -> None:
        """Begin to send these; returns at once."""
        with self._lock:
            self._under_way[lane].update(due.hook_id for due in dues)
        for due in dues:
            asyncio.run_coroutine_threadsafe(self._send(due, lane), self._loop)

    def idle(self, timeout_s: float) -> bool:
        """Wait until nothing is under way and all results are kept; False if that takes longer."""
        return bool(self._run(self._until_idle(timeout_s)).result())

    def drain(self, timeout_s: float) -> bool:
        """Let what is under way come to its end, and claim no more; False if that takes longer."""
        self._more = lambda _: None
        return self.idle(timeout_s)

    def stop(self) -> None:
        """Drop what is under way; its leases run out by themselves."""
        self._run(self._close()).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._writer.submit(connections.close_all)
        self._writer.shutdown()

    def _run(self, work: Coroutine[Any, Any, Any]) -> "concurrent.futures.Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _send(self, due: Due, lane: Lane) -> None:
        at = now()
        try:
            tried = await self._try(due)
        except Exception as error:
            log.exception("a hook could not be told")
            tried = Tried(due, at, 0, None, f"not sent: {type(error).__name__}")
        finally:
            with self._lock:
                self._under_way[lane] -= Counter([due.hook_id])
        self._tried.append(tried)
        if self._writing is None or self._writing.done():
            self._writing = self._loop.create_task(self._write())

    async def _try(self, due: Due) -> Tried:
        if due.command:
            return await command.run(due)
        if self._out is None:
            self._out = Outbound(allowed_networks(tuple(settings.REACH_OUTBOUND_ALLOW)), user_agent="Agent-Reach-Hook")
        return await webhook.post(due, self._out)

    async def _write(self) -> None:
        """Keep what gathered, and what gathers meanwhile."""
        while self._tried:
            batch, self._tried = self._tried, []
            try:
                await self._loop.run_in_executor(self._writer, self._keep, batch)
            except Exception:
                log.exception("%s results of hooks were lost; they are tried again", len(batch))

    def _keep(self, batch: Sequence[Tried]) -> None:
        self._record(batch, now())
        self._more(now())

    async def _until_idle(self, timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            sending = any(self.under_way(lane) for lane in Lane)
            if not sending and not self._tried and (self._writing is None or self._writing.done()):
                return True
            await asyncio.sleep(0.01)
        return False

    async def _close(self) -> None:
        mine = asyncio.current_task()
        running = [task for task in asyncio.all_tasks() if task is not mine]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._out is not None:
            await self._out.close()

"""Where probes run: one event loop on a thread of its own, in two pools, so that hanging suspects delay nobody else."""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connections

from common.clock import now
from common.outbound import Outbound
from registry.addresses import allowed_networks
from registry.probes import run
from registry.probes.base import Result
from registry.probes.claims import Claim, Found

log = logging.getLogger(__name__)

INSTANCES_PER_SLOT = 50  # so many more instances allow one more probe at once
WAITING_PER_SLOT = 4
COUNTED_EVERY_S = 60.0


class Pool:
    """At most `bound` probes at once. The others wait, and are dropped when their claim has run out meanwhile: by then
    another may have taken it."""

    def __init__(self, start: Callable[[Claim], Coroutine[Any, Any, None]]):
        self.bound = 1
        self.pending = 0  # waiting and running; changed on the loop only, read by others
        self._start = start
        self._waiting: deque[tuple[float, Claim]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    @property
    def room(self) -> int:
        return max(0, self.bound * WAITING_PER_SLOT - self.pending)

    def add(self, claims: Sequence[Claim]) -> None:
        """On the loop: let these run as soon as there is a slot."""
        self._waiting.extend((time.monotonic(), claim) for claim in claims)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.bound:
            since, claim = self._waiting.popleft()
            if time.monotonic() - since > claim.good_for_s:
                self.pending -= 1
                continue
            task = asyncio.get_running_loop().create_task(self._start(claim))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self.pending -= 1
        self._fill()


class Prober:
    """Probes in the background and hands the results to `record` in batches. `count` says how many instances there
    are: the more, the more probes may run at once."""

    def __init__(self, record: Callable[[Sequence[Found], datetime], Any], count: Callable[[], int]):
        self._record = record
        self._count = count
        self._counted_at = -COUNTED_EVERY_S
        self._pools = {False: Pool(self._probe), True: Pool(self._probe)}
        self._found: list[Found] = []
        self._writing: asyncio.Task[None] | None = None
        self._writer = concurrent.futures.ThreadPoolExecutor(1, "probe-results")
        self._out: Outbound | None = None
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="prober", daemon=True).start()

    def room(self, suspect: bool) -> int:
        """How many more claims may be taken now; looks once a minute at how many instances there are."""
        if time.monotonic() - self._counted_at >= COUNTED_EVERY_S:
            bound = max(settings.REACH_PROBE_CONCURRENCY, -(-self._count() // INSTANCES_PER_SLOT))
            for pool in self._pools.values():
                pool.bound = bound
            self._counted_at = time.monotonic()
        return self._pools[suspect].room

    def submit(self, claims: Sequence[Claim], suspect: bool) -> None:
        """Probe these; returns at once."""
        if claims:
            self._loop.call_soon_threadsafe(self._add, claims, suspect)

    def run(self, claim: Claim) -> Result:
        """Probe one now, past the pools, and wait for what is found; keeps nothing."""
        return asyncio.run_coroutine_threadsafe(self._result(claim), self._loop).result()

    def idle(self, timeout_s: float) -> bool:
        """Wait until nothing is under way and all results are kept; False if that takes longer."""
        return asyncio.run_coroutine_threadsafe(self._until_idle(timeout_s), self._loop).result()

    def stop(self) -> None:
        """Drop what is under way; claims run out by themselves."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._writer.submit(connections.close_all)
        self._writer.shutdown()

    def _add(self, claims: Sequence[Claim], suspect: bool) -> None:
        self._pools[suspect].pending += len(claims)
        self._pools[suspect].add(claims)

    async def _probe(self, claim: Claim) -> None:
        found = Found(claim, await self._result(claim))
        self._found.append(found)  # looked up after the wait: meanwhile the list may have become a batch
        if self._writing is None or self._writing.done():
            self._writing = self._loop.create_task(self._write())

    async def _write(self) -> None:
        """Keep what gathered, and what gathers meanwhile."""
        while self._found:
            batch, self._found = self._found, []
            try:
                await self._loop.run_in_executor(self._writer, self._record, batch, now())
            except Exception:
                log.exception("%s probe results were lost; their instances are probed again", len(batch))

    async def _result(self, claim: Claim) -> Result:
        if claim.target is None:
            return Result(None, 0.0, claim.problem)
        if self._out is None:
            self._out = Outbound(allowed_networks(tuple(settings.REACH_OUTBOUND_ALLOW)), user_agent="Agent-Reach-Probe")
        return await run(claim.target, self._out)

    async def _until_idle(self, timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if not any(pool.pending for pool in self._pools.values()) and (
                self._writing is None or self._writing.done()
            ):
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

"""What the engine does by the clock: keep its lease, look for due work and callbacks, sweep, and watch itself."""

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from callbacks import services as callbacks
from callbacks.deliverer import Deliverer
from common import clock
from routing.engine.batches import Batches
from routing.engine.cancels import Cancels
from routing.engine.poller import Poller
from routing.services import workers
from routing.services.sweep import sweep

if TYPE_CHECKING:
    from routing.engine.loop import Engine

log = logging.getLogger(__name__)

RENEW_S = 3.0
LOOK_S = 1.0
SWEEP_S = 5.0
AGAIN_S = 0.5  # after a failure
CALLBACKS = 500  # claimed at a time
STUCK_S = 30.0
STUCK_BATCH_S = 60.0  # a batch repeats for half a minute by itself while the database is away


class Keeper:
    """The engine's timed duties, each a coroutine of its own, so that a slow one holds up no other."""

    def __init__(
        self,
        engine: "Engine",
        batches: Batches,
        deliverer: Deliverer,
        poller: Poller,
        cancels: Cancels,
        executor: Executor,
    ):
        self._engine, self._batches, self._deliverer, self._executor = engine, batches, deliverer, executor
        self._poller, self._cancels = poller, cancels
        self.look = asyncio.Event()
        self._lease_thread = ThreadPoolExecutor(1, "engine-lease")  # a lease must not wait behind slow batches
        self._duties: list[asyncio.Task[None]] = []
        self._watchdog = Watchdog(engine, batches)

    async def start(self) -> None:
        """Take the lease, then begin; returns when the worker's row is there."""
        await self._renew()
        never = asyncio.Event()
        for duty, seconds, hurry in (
            (self._renew, RENEW_S, never),
            (self._look, LOOK_S, self.look),
            (self._callbacks, LOOK_S, never),
            (self._poller.look, LOOK_S, never),
            (self._cancels.look, LOOK_S, self._cancels.hurry),
            (self._sweep, SWEEP_S, never),
            (self._alive, LOOK_S, never),
        ):
            self._duties.append(asyncio.create_task(each(seconds, hurry, duty)))
        self._watchdog.start()

    async def stop(self) -> None:
        self._watchdog.stop()
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        self._lease_thread.shutdown(wait=False)

    async def _on_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    async def _renew(self) -> None:
        renew = partial(workers.renew, self._engine.boot_id, self._engine.held, self._batches.progress_at)
        await asyncio.get_running_loop().run_in_executor(self._lease_thread, renew)

    async def _look(self) -> None:
        await self._on_thread(self._engine.claim_due)

    async def _callbacks(self) -> None:
        """All that are due: those of receivers that hang are put off at once, and must not hide the others."""
        while room := min(self._deliverer.room, CALLBACKS):
            due = await self._on_thread(callbacks.claim, clock.now(), room)
            self._deliverer.submit(due)
            if len(due) < room:
                return

    async def _sweep(self) -> None:
        if not workers.contact.is_steady(time.monotonic()):
            return  # a worker that comes back with an answer is given the time to write it down
        await asyncio.sleep(random.random())  # noqa: S311 - workers started together need not sweep together
        await self._on_thread(sweep, clock.now())

    async def _alive(self) -> None:
        self._watchdog.alive()


async def each(seconds: float, hurry: asyncio.Event, duty: Callable[[], Awaitable[None]]) -> None:
    """Do it, then wait: so long, or until it is hurried."""
    while True:
        hurry.clear()
        wait_s = seconds
        try:
            await duty()
        except Exception as error:  # a duty that ended would never be done again
            log.warning("%s failed: %s", duty.__name__, error)
            wait_s = AGAIN_S
        try:
            async with asyncio.timeout(wait_s):  # wait_for may swallow an end that comes together with a hurry
                await hurry.wait()
        except TimeoutError:
            pass


class Watchdog(threading.Thread):
    """Ends the process when it holds work and makes no progress; the supervisor starts a new one."""

    def __init__(self, engine: "Engine", batches: Batches, end: Callable[[int], object] = os._exit):
        super().__init__(name="watchdog", daemon=True)
        self._engine, self._batches, self._end = engine, batches, end
        self._alive_at = time.monotonic()
        self._stopping = threading.Event()

    def alive(self) -> None:
        """The loop turns."""
        self._alive_at = time.monotonic()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            if reason := self.stuck(time.monotonic()):
                log.critical("the engine is stuck, the process ends: %s", reason)
                self._end(70)

    def stuck(self, now: float) -> str | None:
        """Why this process should end, if it should; `now` is monotonic."""
        if not self._engine.held:
            return None
        if now - self._alive_at > STUCK_S:
            return f"its loop has not turned for {now - self._alive_at:.0f} s"
        if self._batches.stuck_for() > STUCK_BATCH_S:
            return f"a batch has been under way for {self._batches.stuck_for():.0f} s"
        return None

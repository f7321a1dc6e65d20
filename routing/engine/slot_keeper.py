"""What slots need by the clock: renewing, giving back what no batch took along, looking for what others gave back."""

import asyncio
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from common.redis import RedisAway
from routing.engine.keeper import each
from routing.engine.leases import Leases
from routing.engine.slots import AbilityKey, Slots
from routing.limits import turns

TICK_S = 1.0
FLUSH_S = 0.05  # under load the next batch takes along what has ended in the meantime
WATCH_S = 0.1


class SlotKeeper:
    """Runs on the engine's loop, with a thread of its own: a renewal must not wait behind slow batches."""

    def __init__(self, slots: Slots, leases: Leases):
        self._slots, self._leases, self._process = slots, leases, uuid.uuid4().hex
        self._thread = ThreadPoolExecutor(1, "engine-slots")
        self._duties: list[asyncio.Task[None]] = []

    def start(self) -> None:
        never = asyncio.Event()
        for duty, hurry in (
            (self._tick, never),
            (self._flush, self._slots.released),
            (self._watch, self._slots.awaited),
        ):
            self._duties.append(asyncio.create_task(each(TICK_S, hurry, duty)))

    async def stop(self) -> None:
        """Give back what has ended; what is still held lapses by itself."""
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        await self._on_thread(self._leases.flush)
        self._thread.shutdown(wait=False)

    def _exchange(self, held: dict[AbilityKey, int]) -> dict[AbilityKey, int]:
        try:
            return turns.exchange(self._process, held) if held else {}
        except RedisAway:
            return {}

    async def _on_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    async def _tick(self) -> None:
        await self._on_thread(self._leases.tick)
        self._slots.wake_freed()

    async def _flush(self) -> None:
        await asyncio.sleep(FLUSH_S)
        if self._leases.has_ended():
            await self._on_thread(self._leases.flush)

    async def _watch(self) -> None:
        while self._slots.is_awaited():
            self._slots.measure(time.monotonic())
            self._slots.others_wait(await self._on_thread(self._exchange, self._slots.held()))
            if places := self._slots.awaited_places():
                await self._on_thread(self._leases.refresh, places)
                self._slots.wake_freed()
            await asyncio.sleep(WATCH_S)

"""Waits of coroutines for what other processes do: woken by hints over Redis, and by a look each second."""

import asyncio
import logging
import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from common import broadcast

log = logging.getLogger(__name__)

LOOK_S = 1.0

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")
AHub = TypeVar("AHub", bound="Hub")  # type: ignore[type-arg]


@dataclass(eq=False, slots=True)
class Wait:
    """One wait; `seen` is what it knows already, where that matters."""

    seen: int = 0
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Hub(Generic[Key, Found]):
    """The waits of one event loop, by what they wait for, the longest first. A kind of hub says what hints mean
    (`heard`) and what a look has found (`found`); both run on the loop.

    `read` is one query for all keys that are waited for; it runs on a thread of the hub's own.
    """

    CHANNELS: tuple[str, ...] = ()

    def __init__(self, read: Callable[[list[Key]], Iterable[Found]]):
        self._loop = asyncio.get_running_loop()
        self._read = read
        self._waits: defaultdict[Key, list[Wait]] = defaultdict(list)
        self._new: set[Key] = set()  # to be looked at before the next second
        self._look = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, "waits")
        self._listener = broadcast.Listener(
            list(self.CHANNELS),
            lambda channel, message: self._call(self.heard, channel, message),
            lambda: self._call(lambda: self.hurry(self._waits)),
        )
        self._listener.start()

    def heard(self, channel: str, message: object) -> None:
        """A hint came."""
        raise NotImplementedError

    def found(self, one: Found) -> None:
        """A look has found this."""
        raise NotImplementedError

    def waits(self, key: Key) -> list[Wait]:
        """Those for this key, the longest first."""
        return self._waits.get(key, [])

    async def wait_for(self, key: Key, seconds: float, seen: int = 0) -> bool:
        """Whether it was woken within so many seconds."""
        wait = Wait(seen)
        self._waits[key].append(wait)
        self.hurry([key])  # what happened before this wait began is found by a first look
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._each_second())
        try:
            await asyncio.wait_for(wait.woken.wait(), seconds)
            return True
        except TimeoutError:
            return False
        finally:
            self._waits[key].remove(wait)
            if not self._waits[key]:
                del self._waits[key]

    def close(self) -> None:
        self._listener.stop()
        self._reader.shutdown(wait=False)
        if self._looking is not None:
            self._looking.cancel()

    async def _each_second(self) -> None:
        """Look at what is new at once, and at all waits each second."""
        all_at = 0.0
        while self._waits:
            self._look.clear()
            if (at := self._loop.time()) >= all_at:
                self._new.update(self._waits)
                all_at = at + LOOK_S
            keys, self._new = self._new & self._waits.keys(), set()
            await self._look_at(list(keys))
            try:
                await asyncio.wait_for(self._look.wait(), max(0.0, all_at - self._loop.time()))
            except TimeoutError:
                pass

    def hurry(self, keys: Iterable[Key]) -> None:
        """Look at these now rather than at the next second."""
        self._new.update(keys)
        self._look.set()

    async def _look_at(self, keys: list[Key]) -> None:
        try:
            rows = await self._loop.run_in_executor(self._reader, self._read, keys) if keys else ()
        except Exception as problem:  # waits outlive a database that is away
            log.warning("waits are not looked after: %s", problem)
            rows = ()
        for one in rows:
            self.found(one)

    def _call(self, function: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._listener.stop()  # the loop is gone


class PerLoop(Generic[AHub]):
    """One hub an event loop, made when it is first asked for."""

    def __init__(self, make: Callable[[], AHub]):
        self._make = make
        self._hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AHub] = weakref.WeakKeyDictionary()

    def __call__(self) -> AHub:
        """The hub of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._hubs:
            self._hubs[loop] = self._make()
        return self._hubs[loop]

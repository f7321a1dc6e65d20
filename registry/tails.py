"""The newest catalog events of each namespace that is watched here, shared by its watchers.

A watcher holds a position and nothing else: it reads from the tail, or, once it is further behind than the tail
reaches, from the table. Hints come from Redis; one query each two seconds finds what no hint told.
"""

import asyncio
import logging
import weakref
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from common import broadcast
from registry import watching
from registry.services.changes import CHANNEL
from registry.watching import Frame, Position

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_S = 2.0
LENGTH = 1000  # events of a namespace in memory, at most twice as many


class Tail:
    """The events after `begin` of one namespace, oldest first."""

    def __init__(self, namespace: str, begin: Position):
        self.namespace, self.begin, self.watchers = namespace, begin, 0
        self.read_to = self.wanted = begin[0]  # versions; those without events count too
        self.reading = False
        self._frames: list[Frame] = []
        self._news = asyncio.Event()

    @property
    def end(self) -> Position:
        return self._frames[-1].position if self._frames else self.begin

    def after(self, seen: Position) -> list[Frame] | None:
        """Those after `seen`; None if the tail no longer reaches so far back."""
        if seen < self.begin:
            return None
        at = bisect_right(self._frames, seen, key=lambda frame: frame.position)
        return self._frames[at : at + watching.PAGE]

    async def wait(self, seen: Position, timeout: float) -> bool:
        """Whether there is something after `seen` within `timeout` seconds."""
        if self.end > seen:
            return True
        try:
            await asyncio.wait_for(self._news.wait(), timeout)
        except TimeoutError:
            return False
        return True

    def add(self, frames: list[Frame]) -> None:
        """Take in what followed, let go of the oldest, and wake whoever waits."""
        self._frames += frames
        if len(self._frames) > 2 * LENGTH:
            self.begin = self._frames[-LENGTH - 1].position
            del self._frames[:-LENGTH]
        news, self._news = self._news, asyncio.Event()
        news.set()


class Tails:
    """Those of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tails: dict[str, Tail] = {}
        self._reader = ThreadPoolExecutor(2, "catalog")
        self._look = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self._readings: set[asyncio.Task[None]] = set()
        self._listener = broadcast.Listener([CHANNEL], self._heard, lambda: self._call(self._look.set))
        self._listener.start()

    @asynccontextmanager
    async def watched(self, namespace: str, begin: Position) -> AsyncIterator[Tail]:
        """The namespace's tail while somebody watches; the first one's begins at `begin`."""
        tail = self._tails.setdefault(namespace, Tail(namespace, begin))
        tail.watchers += 1
        self._look.set()
        if self._polling is None or self._polling.done():
            self._polling = self._loop.create_task(self._poll())
        try:
            yield tail
        finally:
            tail.watchers -= 1
            if not tail.watchers:
                self._tails.pop(namespace, None)

    async def read(self, function: Callable[..., T], *given: Any) -> T:
        """`function(*given)`, which asks the database, on a thread of the tails'."""
        return await self._loop.run_in_executor(self._reader, function, *given)

    def close(self) -> None:
        self._listener.stop()
        self._reader.shutdown(wait=False)
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self) -> None:
        while self._tails:
            self._look.clear()
            try:
                for namespace, version in (await self.read(watching.versions, list(self._tails))).items():
                    self._hint(namespace, version)
            except Exception as problem:  # watchers outlive a database that is away
                log.warning("the catalog is not looked at: %s", problem)
            try:
                await asyncio.wait_for(self._look.wait(), LOOK_S)
            except TimeoutError:
                pass

    def _hint(self, namespace: str, version: int) -> None:
        """Somebody says that the namespace has come to this version."""
        tail = self._tails.get(namespace)
        if tail is None or version <= tail.read_to:
            return
        tail.wanted = max(tail.wanted, version)
        if not tail.reading:
            tail.reading = True
            task = self._loop.create_task(self._follow(tail))
            self._readings.add(task)
            task.add_done_callback(self._readings.discard)

    async def _follow(self, tail: Tail) -> None:
        try:
            while tail.read_to < (wanted := tail.wanted):
                while frames := await self.read(watching.after, tail.namespace, tail.end):
                    tail.add(frames)
                tail.read_to = wanted
        except Exception as problem:  # the next look tries again
            log.warning("the catalog's events are not read: %s", problem)
        finally:
            tail.reading = False

    def _heard(self, _channel: str, message: object) -> None:
        if isinstance(message, dict):
            namespace, version = message.get("namespace"), message.get("version")
            if isinstance(namespace, str) and isinstance(version, int) and namespace in self._tails:
                self._call(self._hint, namespace, version)

    def _call(self, function: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._listener.stop()  # the loop is gone


_tails: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Tails]" = weakref.WeakKeyDictionary()


def tails() -> Tails:
    """Those of the running event loop; a web process has one."""
    loop = asyncio.get_running_loop()
    if loop not in _tails:
        _tails[loop] = Tails()
    return _tails[loop]

"""Who waits for a task hears of its end: one Redis message a settle batch, and a re-read each second for lost ones."""

import asyncio
import logging
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from common import broadcast
from common.database import hot_cursor, robust

log = logging.getLogger(__name__)

CHANNEL, STEPS = "tasks", "steps"
REREAD_S = 1.0
NEVER = 1 << 62  # a number that no event reaches: wakes at the end only

Read = Callable[[list[uuid.UUID]], list[tuple[uuid.UUID, int, bool]]]


def publish(task_ids: Iterable[uuid.UUID]) -> None:
    """Tell every process that these tasks have ended; after the commit. Never blocks, never raises."""
    if ids := [str(task_id) for task_id in task_ids]:
        broadcast.publish(CHANNEL, ids)


def stepped(task_ids: Iterable[uuid.UUID]) -> None:
    """Tell who follows these tasks that there is more to read; as `publish`."""
    if ids := [str(task_id) for task_id in task_ids]:
        broadcast.publish(STEPS, ids)


@robust(patience=5.0)
def read_progress(task_ids: list[uuid.UUID]) -> list[tuple[uuid.UUID, int, bool]]:
    """(task id, number of its last event, whether it has ended) of those that exist, in one query."""
    with hot_cursor() as cursor:
        cursor.execute("SELECT id, seq, outcome IS NOT NULL FROM routing_task WHERE id = ANY(%s)", [task_ids])
        return cursor.fetchall()


@dataclass(eq=False, slots=True)
class _Waiter:
    seen: int
    woken: asyncio.Event


class Hub:
    """The waits of one event loop. Hints come from a listener thread; one query a second covers what they miss."""

    def __init__(self, read: Read = read_progress):
        self._loop = asyncio.get_running_loop()
        self._read = read
        self._waiters: defaultdict[uuid.UUID, set[_Waiter]] = defaultdict(set)
        self._look = asyncio.Event()
        self._poll: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, "endings")
        self._listener = broadcast.Listener([CHANNEL, STEPS], self._heard, self._missed)
        self._listener.start()

    async def wait(self, task_id: uuid.UUID, timeout: float) -> bool:
        """Whether the task ended within `timeout` seconds."""
        return await self.wait_change(task_id, timeout, NEVER)

    async def wait_change(self, task_id: uuid.UUID, timeout: float, seen: int) -> bool:
        """Whether the task got an event with a number above `seen`, or ended, within `timeout` seconds."""
        waiter = _Waiter(seen, asyncio.Event())
        self._waiters[task_id].add(waiter)
        self._look.set()  # what happened before this wait began is found by a first read
        if self._poll is None or self._poll.done():
            self._poll = self._loop.create_task(self._reread())
        try:
            await asyncio.wait_for(waiter.woken.wait(), timeout)
            return True
        except TimeoutError:
            return False
        finally:
            self._forget(task_id, waiter)

    def close(self) -> None:
        self._listener.stop()
        self._reader.shutdown(wait=False)
        if self._poll is not None:
            self._poll.cancel()

    def _forget(self, task_id: uuid.UUID, waiter: _Waiter) -> None:
        waiters = self._waiters[task_id]
        waiters.discard(waiter)
        if not waiters:
            del self._waiters[task_id]

    async def _reread(self) -> None:
        while self._waiters:
            self._look.clear()
            try:
                rows = await self._loop.run_in_executor(self._reader, self._read, list(self._waiters))
            except Exception as problem:  # waits outlive a database that is away
                log.warning("waits are not re-read: %s", problem)
                rows = []
            for task_id, seq, ended in rows:
                self._wake(task_id, seq, ended)
            try:
                await asyncio.wait_for(self._look.wait(), REREAD_S)
            except TimeoutError:
                pass

    def _wake(self, task_id: uuid.UUID, seq: int, ended: bool) -> None:
        for waiter in self._waiters.get(task_id, ()):
            if ended or seq > waiter.seen:
                waiter.woken.set()

    def _ended(self, ids: list[str]) -> None:
        for task_id in ids:
            self._wake(uuid.UUID(task_id), NEVER, ended=True)

    def _stepped(self, ids: list[str]) -> None:
        for task_id in ids:
            for waiter in self._waiters.get(uuid.UUID(task_id), ()):
                if waiter.seen != NEVER:
                    waiter.woken.set()

    def _heard(self, channel: str, message: object) -> None:
        if isinstance(message, list):
            self._call(self._stepped if channel == STEPS else self._ended, message)

    def _missed(self) -> None:
        self._call(self._look.set)

    def _call(self, function: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._listener.stop()  # the loop is gone


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop; a web process has one."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]

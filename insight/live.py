"""Streams that tell a page when what it shows has changed, so that it need not ask again and again.

A stream says no more than that: what it has become, the page fetches by itself, with every check of access. One thread
a process looks for all streams together; a stream holds neither a thread nor a connection to the database.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from common import waits
from common.streams import Answer, Gone, Receive, Send, stream, unless, write
from insight.versions import OVER, Look, Watched
from routing import endings

HEARTBEAT_S = 15.0
LIFETIME_S = 3600.0  # then the browser comes back by itself, perhaps to another process
GAP_S = {"list": 3.0, "task": 1.0, "bulk": 1.0}  # between two changes that are told
SOON_S = 0.3  # between two looks, however many hints there are

Read = Callable[[list[Watched]], Iterable[tuple[Watched, int]]]


class Changes:
    """What a view leaves for the web server's loop: word of each change of a page since the version `seen`."""

    def __init__(self, watched: Watched, seen: int):
        self.watched, self.seen = watched, seen

    async def respond(self, send: Send, receive: Receive, answer: Answer) -> None:
        await stream(send, receive, answer, lambda gone: self._write(send, gone))

    async def _write(self, send: Send, gone: Gone) -> None:
        await write(send, b": changes of a page\n\n")
        end, seen = time.monotonic() + LIFETIME_S, self.seen
        while not gone.done() and time.monotonic() < end:
            version = await unless(gone, hub().change(self.watched, HEARTBEAT_S, seen))
            if version == OVER or gone.done():
                return
            if version is None or version == seen:
                await write(send, b": still here\n\n")
            else:
                seen = version
                await write(send, b"event: changed\ndata: %d\n\n" % seen)
                await unless(gone, asyncio.sleep(GAP_S[self.watched.shown.kind]))


class Hub(waits.Hub[Watched, tuple[Watched, int]]):
    """The streams of one event loop."""

    CHANNELS = (endings.CHANNEL, endings.STEPS)

    def __init__(self, read: Read | None = None):
        super().__init__(read or Look())
        self._versions: dict[Watched, int] = {}
        self._hurried_at = 0.0

    async def change(self, watched: Watched, seconds: float, seen: int) -> int | None:
        """The page's version once it is another than `seen`; None if that takes longer."""
        try:
            return self._versions.get(watched) if await self.wait_for(watched, seconds, seen) else None
        finally:
            if not self.waits(watched):
                self._versions.pop(watched, None)

    def found(self, one: tuple[Watched, int]) -> None:
        watched, version = one
        for wait in self.waits(watched):
            if version != wait.seen:
                self._versions[watched] = version
                wait.woken.set()

    def heard(self, channel: str, message: object) -> None:
        """Of a task that somebody looks at; lists have their time."""
        told = message if isinstance(message, list) else ()
        concerned = [one for one in self._waits if one.shown.kind == "task" and one.shown.name in told]
        if concerned and time.monotonic() - self._hurried_at > SOON_S:
            self._hurried_at = time.monotonic()
            self.hurry(concerned)


hub = waits.PerLoop(Hub)
"""The hub of the running event loop; a web process has one."""

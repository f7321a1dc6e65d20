"""The stream of a catalog's events to one watcher (server-sent events)."""

import time
from collections.abc import Callable

from common.streams import Answer, Gone, Receive, Send, stream, unless, write
from registry import watching
from registry.tails import Tail, Tails, tails
from registry.watching import Frame, Position

HEARTBEAT_S = 15.0
LIFETIME_S = 3600.0  # then the watcher comes back with its Last-Event-ID, and its rights are looked at again


class CatalogEvents:
    """What happens in a namespace after `last_id`, or from now on; of routes only those that `may` be used."""

    def __init__(self, namespace: str, last_id: str, may: Callable[[str], bool]):
        self.namespace, self.last_id, self.may = namespace, last_id, may

    async def respond(self, send: Send, receive: Receive, answer: Answer) -> None:
        await stream(send, receive, answer, lambda gone: self._write(send, gone))

    async def _write(self, send: Send, gone: Gone) -> None:
        shared = tails()
        begin = await shared.read(watching.start, self.namespace, self.last_id)
        await write(send, watching.opening(begin))
        async with shared.watched(self.namespace, begin.position) as tail:
            await self._follow(send, gone, shared, tail, begin.position)

    async def _follow(self, send: Send, gone: Gone, shared: Tails, tail: Tail, seen: Position) -> None:
        end = time.monotonic() + LIFETIME_S
        while not gone.done() and time.monotonic() < end:
            frames = tail.after(seen)
            if frames is None:  # this watcher is further behind than memory reaches
                frames = await shared.read(watching.after, self.namespace, seen)
                seen = seen if frames else tail.begin
            if frames:
                seen = frames[-1].position
                if body := self._shown(frames):
                    await write(send, body)
            elif await unless(gone, tail.wait(seen, HEARTBEAT_S)) is False:
                await write(send, b": still here\n\n")

    def _shown(self, frames: list[Frame]) -> bytes:
        return b"".join(one.body for one in frames if one.ability is None or self.may(one.ability))

"""A watcher of the catalog and the web server's loop around it."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reach_platform.front.types import Answer


@dataclass
class Heard:
    """One event of the stream."""

    id: str
    event: str
    data: dict[str, Any]


@dataclass
class Watcher:
    """Collects what is sent; a stuck one takes nothing after the head."""

    stuck: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, message: dict[str, Any]) -> None:
        if self.stuck and b"event:" in message.get("body", b""):
            await self.left.wait()
        else:
            self.messages.append(message)

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def is_complete(self) -> bool:
        return not self.messages[-1].get("more_body", False)

    @property
    def frames(self) -> list[dict[str, str]]:
        lines = [frame.split("\n") for frame in self.body.decode().split("\n\n")]
        return [dict(line.split(": ", 1) for line in frame if line and line[0] != ":") for frame in lines]

    @property
    def events(self) -> list[Heard]:
        return [Heard(one["id"], one["event"], json.loads(one["data"])) for one in self.frames if "data" in one]

    @property
    def last_id(self) -> str:
        return [one["id"] for one in self.frames if "id" in one][-1]


def watch(
    namespace: str,
    change: Callable[[], Any],
    *,
    until: int,
    last_id: str = "",
    may: Callable[[str], bool] = bool,
    within: float = 10.0,
    stay: Callable[[Watcher], Any] = bool,
    beside_a_stuck_one: bool = False,
) -> Any:
    """What a watcher hears that is there before `change` begins, until it has `until` events and `stay` is true."""

    async def run() -> Any:
        from registry.catalog_events import CatalogEvents

        watchers = [Watcher(stuck=True), Watcher()] if beside_a_stuck_one else [Watcher()]
        streams = [
            asyncio.ensure_future(CatalogEvents(namespace, last_id, may).respond(one.send, one.receive, _answer()))
            for one in watchers
        ]
        try:
            await _until(lambda: all(len(one.messages) > 1 for one in watchers), within)
            await asyncio.to_thread(_done, change)
            await _until(lambda: len(watchers[-1].events) >= until and stay(watchers[-1]), within)
            for one in watchers:
                one.left.set()
            await asyncio.wait_for(asyncio.gather(*streams), within)
        finally:
            _close()
        return tuple(watchers) if beside_a_stuck_one else watchers[0]

    return asyncio.run(run())


async def _until(check: Callable[[], Any], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.01)


def _answer() -> Answer:
    return Answer(200, [(b"content-type", b"text/event-stream"), (b"content-length", b"0")])


def _done(change: Callable[[], Any]) -> None:
    """The change, from a thread whose connection does not outlive it: a database in use cannot be dropped."""
    change()
    _disconnect()


def _disconnect() -> None:
    from django.db import connections

    connections.close_all()


def _close() -> None:
    from registry.tails import tails

    shared = tails()
    for _ in range(2):
        shared._reader.submit(_disconnect).result()
    shared.close()

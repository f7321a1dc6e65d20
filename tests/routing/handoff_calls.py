"""A stand-in for the web server's loop: what a hand-off sends, and a client that stays or leaves."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from reach_platform.front.types import Answer


@dataclass
class Connection:
    """Collects what is sent; `leave()` is the client closing its connection."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self.left.set()

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def is_complete(self) -> bool:
        return not self.messages[-1].get("more_body", False)

    def events(self) -> list[tuple[int, str]]:
        """(id, event name) of each event sent."""
        frames = [frame for frame in self.body.decode().split("\n\n") if frame.startswith("id: ")]
        return [(int(f.split("\n")[0][4:]), f.split("\n")[1][7:]) for f in frames]


def answer(status: int = 202, body: bytes = b"{}") -> Answer:
    return Answer(status, [(b"content-type", b"application/json"), (b"content-length", b"2")], body)


def respond(hand_off: Any, *, during: Any = None, within: float = 10, left: bool = False) -> Connection:
    """Runs a hand-off to its end; `during(connection)` runs beside it once something was asked for. `left`: the client
    is gone already."""
    from routing import handoff

    async def run() -> Connection:
        connection = Connection()
        if left:
            connection.leave()
        work = asyncio.ensure_future(hand_off.respond(connection.send, connection.receive, answer()))
        try:
            if during is not None:
                await asyncio.sleep(0.1)
                await asyncio.to_thread(during, connection)
            await asyncio.wait_for(work, within)
        finally:
            _close_hub()
        return connection

    with ThreadPoolExecutor(1) as reader:
        usual, handoff._readers = handoff._readers, reader
        try:
            return asyncio.run(run())
        finally:
            handoff._readers = usual
            reader.submit(_close_connections).result()


def _close_hub() -> None:
    from routing import endings, pulling

    for hub in (endings.hub(), pulling.hub()):
        hub._reader.submit(_close_connections).result()
        hub.close()


def _close_connections() -> None:
    """A test database cannot be dropped while a thread is connected to it."""
    from django.db import connections

    connections.close_all()

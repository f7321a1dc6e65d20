"""Names for the parts of the ASGI interface, and the answer that goes out through it."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class Answer:
    """A response ready for the wire: `chunks` instead of `body` when it streams; `hand_off` when the loop writes it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    chunks: Iterator[bytes] | None = None
    close: Callable[[], None] | None = None  # after the last chunk
    hand_off: Any = None

    async def send(self, send: Send, *, head: bool = False) -> None:
        """Send it in one piece; with `head` only what a HEAD request gets."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"" if head else self.body})


class Lane(Protocol):
    """A quicker way for requests of one kind."""

    async def answer(self, scope: Scope, body: bytes) -> Answer | None: ...

    def close(self) -> None: ...

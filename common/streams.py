"""What streams and waits on the web server's event loop share.

A view sets `response.hand_off`; the front then awaits `hand_off.respond(send, receive, answer)`, where `receive`
returns once the client is gone or the server stops, and `answer` is the view's response, ready for the wire.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Gone = asyncio.Future[Any]


class Answer(Protocol):
    """The view's response: status, headers as pairs of bytes, body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    async def send(self, send: Send) -> None: ...


async def stream(send: Send, receive: Receive, answer: Answer, write: Callable[[Gone], Awaitable[None]]) -> None:
    """Send the answer's head, let `write` write until it is done or `gone`, and end the answer."""
    gone = asyncio.ensure_future(receive())
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": without_length(answer)})
        await write(gone)
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()


async def write(send: Send, body: bytes) -> None:
    """Send some of a body; returns once the server took it, which a slow reader delays for itself alone."""
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def unless(gone: Gone, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None when `gone` came first."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return task.result()
    task.cancel()
    return None


def without_length(answer: Answer) -> list[tuple[bytes, bytes]]:
    """The answer's headers for a body of unknown length."""
    return [(name, value) for name, value in answer.headers if name != b"content-length"]

"""Reading request bodies on the event loop: within a size, a time, and the memory that all together may take."""

import asyncio
from typing import Any

from common.errors import BadRequest, BodyTooLarge, Overloaded, ReachError
from reach_platform.front.types import Receive, Scope

DRAIN_BYTES = 64 * 1024 * 1024  # a refused upload is read on this far, so that its sender gets to see the answer


class UploadTooSlow(ReachError):
    status, code, title = 408, "UPLOAD_TOO_SLOW", "The body did not arrive in time"


class BodyCutShort(BadRequest):
    """The client went away, or broke the framing: the server tells the two apart no more than this."""

    def __init__(self) -> None:
        super().__init__("the body ended before its announced length, or a chunk of it cannot be read")


class BodyReader:
    """Reads bodies; `held` counts the bytes of all that are in memory now, and never exceeds `memory`."""

    def __init__(self, *, seconds: float, memory: int):
        self.seconds, self.memory, self.held = seconds, memory, 0

    async def read(self, scope: Scope, receive: Receive, limit: int) -> bytes:
        """The whole body; the caller gives its length back to `held` when it is done with it.

        Raises BodyTooLarge above `limit` bytes, UploadTooSlow, Overloaded, BodyCutShort.
        """
        declared = _declared_length(scope)
        if declared == 0:
            return b""
        if declared is not None and declared > limit:
            raise BodyTooLarge(limit)
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.seconds):
                while size != declared:
                    message = await _next(receive)
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    self.held += len(chunk)
                    self._check(size, limit)
                    chunks.append(chunk)
                    if not message.get("more_body"):
                        break
        except BaseException as error:
            self.held -= size
            if isinstance(error, TimeoutError):
                raise UploadTooSlow(f"it has to arrive within {self.seconds:g} s") from None
            raise
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _check(self, size: int, limit: int) -> None:
        if size > limit:
            raise BodyTooLarge(limit)
        if self.held > self.memory:
            raise Overloaded("too many bodies are arriving at once")

    async def drain(self, scope: Scope, receive: Receive) -> None:
        """Throw away what a refused client still sends; ends with the body, a limit, or the client."""
        if dict(scope["headers"]).get(b"expect"):
            return  # it waits for a word from us before it sends anything
        size = 0
        try:
            async with asyncio.timeout(self.seconds):
                while size < DRAIN_BYTES:
                    message = await _next(receive)
                    size += len(message.get("body", b""))
                    if not message.get("more_body"):
                        return
        except (TimeoutError, BodyCutShort):
            return


async def _next(receive: Receive) -> dict[str, Any]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise BodyCutShort
    return message


def _declared_length(scope: Scope) -> int | None:
    """Bytes that the body will have; None when only its end will tell."""
    length, chunked = None, scope["http_version"] not in ("1.0", "1.1") and scope["method"] not in ("GET", "HEAD")
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = value
        elif name == b"transfer-encoding":
            chunked = True
    if length is not None and not (length.isascii() and length.isdigit() and len(length) < 20):
        raise BadRequest("Content-Length is not a number")
    return int(length) if length is not None else None if chunked else 0

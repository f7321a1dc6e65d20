"""The little HTTP/1.1 that a load harness needs, on httptools: it must cost far less than what it measures."""

import asyncio
from collections.abc import Callable
from typing import Any

import httptools

REASONS = {200: b"OK", 204: b"No Content"}


class ServedConnection(asyncio.Protocol):
    """One keep-alive connection; `handle(connection, method, body)` calls `reply` at once or later."""

    def __init__(self, handle: Callable[["ServedConnection", bytes, bytes], None]):
        self._handle, self._parser, self._body = handle, httptools.HttpRequestParser(self), b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        self._handle(self, self._parser.get_method(), body)

    def reply(self, status: int, body: bytes = b"") -> None:
        length = b"" if status == 204 else b"Content-Length: %d\r\nContent-Type: application/json\r\n" % len(body)
        self._transport.write(b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, REASONS[status], length, body))


class Caller(asyncio.Protocol):
    """One client connection: a request at a time."""

    def __init__(self, host: str, port: int, head: bytes):
        self._host, self._port, self._head = host, port, head
        self._transport: Any = None
        self._answer: asyncio.Future[int] | None = None

    async def post(self, body: bytes) -> int:
        """Send the body and return the answer's status; raises ConnectionError when the connection breaks."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            await loop.create_connection(lambda: self, self._host, self._port)
        self._parser, self._answer = httptools.HttpResponseParser(self), loop.create_future()
        self._transport.write(self._head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return await self._answer

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_result(self._parser.get_status_code())

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"connection lost: {exc}"))

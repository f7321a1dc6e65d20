"""Django's WSGI handler in a bounded pool of threads, each with its own lasting database connection."""

import logging
from collections.abc import Callable, Iterator
from email.errors import MessageError
from typing import Any

from django.http import HttpResponse, HttpResponseBase

from common.errors import BadRequest, Internal, NotReady, problem_response
from common.ids import new_trace_id
from reach_platform.front.threads import Threads
from reach_platform.front.types import Answer, Send

log = logging.getLogger(__name__)

PIECE = 64 * 1024  # bytes of a streamed response that one visit to a thread collects

Handler = Callable[[dict[str, Any], Callable[..., Any]], HttpResponseBase]


class DjangoPool:
    """Runs requests through `handler`; at most `threads` at once and `queue` more waiting."""

    def __init__(self, handler: Handler, *, threads: int, queue: int):
        self._handler = handler
        self._threads = Threads(threads, "django")
        self._room = threads + queue

    async def answer(self, environ: dict[str, Any]) -> Answer:
        """What Django answers. Raises NotReady at once when the pool and its queue are full."""
        if self._room <= 0:
            raise NotReady("all request threads are busy; try again", retry_after=1)
        self._room -= 1
        try:
            return await self._threads.run(self._handle, environ)
        finally:
            self._room += 1

    async def stream(self, answer: Answer, send: Send) -> None:
        """Send a streamed answer; no thread is held while the client reads."""
        assert answer.chunks is not None  # noqa: S101 - for the type checker
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        try:
            while piece := await self._threads.run(_gather, answer.chunks):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            if answer.close:
                await self._threads.run(_close, answer.close)

    def close(self) -> None:
        """Let the threads end once they have nothing more to do."""
        self._threads.close()

    def _handle(self, environ: dict[str, Any]) -> Answer:
        try:
            response = self._handler(environ, _ignore)
        except Exception as error:
            # Django turns what its views raise into responses; this is a request that it could not even build.
            response = _unreadable(error)
        return to_answer(response)


def _unreadable(error: Exception) -> HttpResponse:
    trace_id = new_trace_id()
    if isinstance(error, ValueError | LookupError | TypeError | MessageError):
        return problem_response(BadRequest("a header cannot be read"), trace_id)
    log.error("request failed", exc_info=error, extra={"event": "http.error", "traceId": trace_id})
    return problem_response(Internal(), trace_id)


def to_answer(response: HttpResponseBase) -> Answer:
    """The same response as bytes; a complete one is closed, which is when Django checks the thread's connection."""
    headers = [(name.lower(), value) for name, value in response.items()]
    headers += [("set-cookie", cookie.output(header="").strip()) for cookie in response.cookies.values()]
    wire = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    hand_off = getattr(response, "hand_off", None)
    if isinstance(response, HttpResponse):
        answer = Answer(response.status_code, wire, response.content, hand_off=hand_off)
        response.close()
        return answer
    return Answer(response.status_code, wire, chunks=iter(response), close=response.close)  # type: ignore[call-overload]


def _gather(chunks: Iterator[bytes]) -> bytes:
    pieces, size = [], 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size >= PIECE:
            break
    return b"".join(pieces)


def _close(close: Callable[[], None]) -> None:
    close()


def _ignore(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
    """WSGI's start_response: the response itself has it all."""

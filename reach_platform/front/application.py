"""The ASGI application that the web server runs."""

import asyncio
import logging
import signal
import threading
from typing import Any

from common.errors import BodyTooLarge, ReachError, problem_response
from common.ids import new_trace_id, parse_traceparent
from reach_platform.front.body import BodyCutShort, BodyReader, UploadTooSlow
from reach_platform.front.environ import build
from reach_platform.front.pool import DjangoPool, to_answer
from reach_platform.front.types import Answer, Lane, Receive, Scope, Send

log = logging.getLogger(__name__)

BATCH_PATH = "/v1/reach/batch"


class Front:
    """Reads bodies and serves streams and waits on the loop; Django answers everything, from `pool`."""

    def __init__(self, pool: DjangoPool, reader: BodyReader, lane: Lane | None = None, *, limit: int, batch_limit: int):
        self._pool, self._reader, self._lane = pool, reader, lane
        self._limit, self._batch_limit = limit, batch_limit
        self._stopping = False
        self._watches: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._batch_limit if scope["path"] == BATCH_PATH else self._limit
        try:
            body = await self._reader.read(scope, receive, limit)
        except ReachError as error:
            await self._refuse(error, scope, send)
            if isinstance(error, BodyTooLarge):
                await self._reader.drain(scope, receive)
            return
        try:
            answer = await self._answer(scope, body)
        except ReachError as error:
            await self._refuse(error, scope, send)
            return
        finally:
            self._reader.held -= len(body)
        await self._deliver(answer, scope, receive, send)

    async def _answer(self, scope: Scope, body: bytes) -> Answer:
        quick = await self._lane.answer(scope, body) if self._lane else None
        return quick or await self._pool.answer(build(scope, body))

    async def _deliver(self, answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
        head = scope["method"] == "HEAD"
        if answer.hand_off is not None and not head:
            await answer.hand_off.respond(send, self._until_gone(receive), answer)
        elif answer.chunks is not None and not head:
            await self._pool.stream(answer, send)
        else:
            await answer.send(send, head=head)

    async def _refuse(self, error: ReachError, scope: Scope, send: Send) -> None:
        known = parse_traceparent(dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1"))
        answer = to_answer(problem_response(error, known[0] if known else new_trace_id()))
        answer.headers += [(b"content-length", str(len(answer.body)).encode()), (b"x-content-type-options", b"nosniff")]
        if isinstance(error, UploadTooSlow | BodyCutShort):
            answer.headers.append((b"connection", b"close"))
        await answer.send(send)

    def _until_gone(self, receive: Receive) -> Receive:
        """A `receive` that returns once the client is gone or the server stops, and gives nothing else."""

        async def gone() -> dict[str, Any]:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - for the type checker
            self._watches.add(task)
            try:
                while not self._stopping and (await receive())["type"] != "http.disconnect":
                    pass  # the end of a body that was read by its length
            except asyncio.CancelledError:
                if not self._stopping:
                    raise
            finally:
                self._watches.discard(task)
            return {"type": "http.disconnect"}

        return gone

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._end_streams_at_sigterm()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.stop()
                self._pool.close()
                if self._lane:
                    self._lane.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _end_streams_at_sigterm(self) -> None:
        # The server announces its stop only after the last stream's end, so the streams hear of it from the signal.
        # The loop's own handlers are called through a wake-up descriptor and are not displaced by this one.
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self.stop))

    def stop(self) -> None:
        """End every stream and wait."""
        self._stopping = True
        for watch in list(self._watches):
            watch.cancel()

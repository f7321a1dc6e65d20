"""A local HTTP server on a thread of its own, which records what it is sent."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from multidict import CIMultiDictProxy


@dataclass
class Received:
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes
    at: float


Answer = Callable[[Received], Awaitable[web.StreamResponse]]


async def plain(_: Received) -> web.Response:
    return web.json_response({"y": 1})


class LocalServer:
    """Answers every request by `answer`, which may be exchanged at any time."""

    def __init__(self, answer: Answer | None = None, port: int = 0):
        self.answer, self.port = answer or plain, port
        self.received: list[Received] = []
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._up.wait(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def wait_for(self, count: int, seconds: float = 30.0) -> list[Received]:
        """The requests so far, once there are `count`."""
        wait_until(lambda: len(self.received) >= count, seconds)
        return self.received

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())

    async def _end(self) -> None:
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()  # answers that nobody waits for any more
        await asyncio.gather(*left, return_exceptions=True)

    async def _start(self) -> None:
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        received = Received(request.path, request.headers, await request.read(), time.monotonic())
        self.received.append(received)
        return await self.answer(received)


def wait_until(
    condition: Callable[[], object], seconds: float = 30.0, so_far: Callable[[], object] = lambda: ""
) -> None:
    """Return as soon as the condition holds; fails after `seconds`, and tells how it stands `so_far`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come to pass in time: {so_far()}"
        time.sleep(0.005)

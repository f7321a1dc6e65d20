"""A network that can be told to fail: a TCP proxy with delay, loss, partition, half-open and refused connections."""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CHUNK = 65_536
RETRANSMISSION_S = 0.2  # what a lost segment costs: TCP sends it once more, and doubles the wait each time
LONGEST_WAIT_S = 3.0
_LINGER_NONE = struct.pack("ii", 1, 0)  # closing sends a reset

Upstream = tuple[str, int] | str


class FaultProxy:
    """Passes TCP on to `upstream`, (host, port) or a unix socket's path, from `port` on loopback; a thread of its own.

    All faults apply to both directions and to connections there are as well as to new ones. Use as a context manager.
    """

    def __init__(self, upstream: Upstream, port: int = 0):
        self._upstream = upstream
        self._delay_s = self._loss = 0.0
        self._pairs: set[_Pair] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        self.port = port
        self._server: asyncio.Server | None = None
        self._whole = self._on_loop(_set_event)
        self.listen()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self._pairs)

    def delay(self, seconds: float) -> None:
        """Each piece of data takes so much longer."""
        self._delay_s = seconds

    def lose(self, share: float) -> None:
        """This share of pieces is lost and sent once more, which looks like delay to whoever waits."""
        self._loss = share

    def partition(self) -> None:
        """Nothing passes any more, and nobody is told; after `heal` what was sent meanwhile arrives."""
        self._on_loop(self._whole.clear)

    def heal(self) -> None:
        """No more delay, loss or partition."""
        self._delay_s = self._loss = 0.0
        self._on_loop(self._whole.set)

    def half_open(self) -> None:
        """The far side forgets its connections without a word; new ones work."""
        self._on_loop(lambda: self._each(_Pair.forget_far))

    def reset(self) -> None:
        """All connections end at once with a reset; new ones work."""
        self._on_loop(lambda: self._each(_Pair.reset))

    def refuse(self) -> None:
        """Nobody listens any more, and connections are reset: as if the process had been killed."""
        self._run(self._refuse())

    def listen(self) -> None:
        """Take connections, again after `refuse`."""
        self._run(self._listen())

    def close(self) -> None:
        self._run(self._refuse())
        self._run(_settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def __enter__(self) -> "FaultProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each(self, act: Callable[["_Pair"], None]) -> None:
        for pair in list(self._pairs):
            act(pair)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _on_loop(self, function: Callable[[], Any]) -> Any:
        async def call() -> Any:
            return function()

        return self._run(call())

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=1024)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._each(_Pair.reset)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        try:
            if isinstance(self._upstream, str):
                far_reader, far_writer = await asyncio.open_unix_connection(self._upstream)
            else:
                far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            _reset(writer)
            return
        pair = _Pair(writer, far_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer, pair))
        finally:
            self._pairs.discard(pair)
            pair.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: "_Pair | None" = None
    ) -> None:
        """Pass on until the end, which is passed on too."""
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._travel()
                writer.write(data)
                await writer.drain()
        if back is not None and back.forgotten:
            await back.closed.wait()
        await self._whole.wait()
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    async def _travel(self) -> None:
        wait_s = self._delay_s
        again = RETRANSMISSION_S
        while self._loss and random.random() < self._loss and again < LONGEST_WAIT_S:
            wait_s, again = wait_s + again, again * 2
        if wait_s:
            await asyncio.sleep(wait_s)
        await self._whole.wait()


class _Pair:
    """One connection through the proxy: the side that connected, and the far one."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter):
        self._near, self._far = near, far
        self.forgotten = False
        self.closed = asyncio.Event()

    def forget_far(self) -> None:
        self.forgotten = True
        _reset(self._far)

    def reset(self) -> None:
        _reset(self._near)
        _reset(self._far)
        self.closed.set()

    def close(self) -> None:
        self._near.close()
        self._far.close()
        self.closed.set()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    writer.transport.abort()


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def _settle() -> None:
    """Let what is under way end."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

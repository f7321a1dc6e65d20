"""The two ends that a platform talks to, each a process of its own: simulated agents and the callback receiver."""

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import uvloop

from benchmarks.http import ServedConnection

SPAWN = multiprocessing.get_context("spawn")
ANSWER = json.dumps({"status": "SUCCEEDED", "data": {"category": "login", "confidence": 0.93}, "usage": {"tokens": 31}})
HEALTHY = b'{"status":"ok"}'


class Agent:
    """Answers each task after `delay` seconds; records (marker, received at, answered at)."""

    def __init__(self, delay: float, count: Any):
        self._delay, self._count, self.records = delay, count, list[tuple[str, float, float]]()

    def handle(self, connection: ServedConnection, method: bytes, body: bytes) -> None:
        received_at = time.time()
        marker = json.loads(body).get("payload", {}).get("marker") if method == b"POST" else None
        if marker is None:  # a probe, of the health address or through the invoke path
            connection.reply(200, ANSWER.encode() if method == b"POST" else HEALTHY)
            return
        self._count.value += 1
        asyncio.get_running_loop().call_later(self._delay, self._answer, connection, marker, received_at)

    def _answer(self, connection: ServedConnection, marker: str, received_at: float) -> None:
        self.records.append((marker, received_at, time.time()))
        connection.reply(200, ANSWER.encode())


class Receiver:
    """Takes callbacks; records (marker, arrived at, state)."""

    def __init__(self, _delay: float, count: Any):
        self._count, self.records = count, list[tuple[str, float, str]]()

    def handle(self, connection: ServedConnection, _method: bytes, body: bytes) -> None:
        arrived_at = time.time()
        callback = json.loads(body)
        self.records.append((callback["correlationId"], arrived_at, callback["state"]))
        self._count.value += 1
        connection.reply(204)


@dataclass
class Peer:
    """A running peer, seen from the harness: its address, a shared counter and its records."""

    url: str
    count: Any
    _pipe: Connection
    _process: Any

    @classmethod
    def start(cls, kind: type[Agent] | type[Receiver], delay: float = 0.0) -> "Peer":
        pipe, far_end = SPAWN.Pipe()
        count = SPAWN.Value("q", 0, lock=False)
        process = SPAWN.Process(target=serve, args=(kind, delay, count, far_end), daemon=True)
        process.start()
        return cls(f"http://127.0.0.1:{pipe.recv()}/", count, pipe, process)

    def take_records(self) -> list[tuple]:
        """Return what was recorded since the last call."""
        self._pipe.send("take")
        records: list[tuple] = self._pipe.recv()
        return records

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()


def serve(kind: Callable[..., Agent | Receiver], delay: float, count: Any, pipe: Connection) -> None:
    """Serve on a free loopback port until terminated or orphaned; port and records go into the pipe."""

    async def main() -> None:
        peer, loop, ended = kind(delay, count), asyncio.get_running_loop(), asyncio.Event()

        def hand_over() -> None:
            os.set_blocking(pipe.fileno(), True)  # the loop made it non-blocking; records can be larger than its buffer
            try:
                pipe.recv()
            except EOFError:  # the harness was killed; its end of the pipe would stay readable for ever
                ended.set()
                loop.remove_reader(pipe.fileno())
                return
            pipe.send(peer.records[:])
            peer.records.clear()

        server = await loop.create_server(lambda: ServedConnection(peer.handle), "127.0.0.1", 0, backlog=1024)
        loop.add_reader(pipe.fileno(), hand_over)
        pipe.send(server.sockets[0].getsockname()[1])
        await ended.wait()

    uvloop.run(main())

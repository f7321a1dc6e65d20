"""The load generator, a process of its own: posts tasks in a closed or an open loop and records every answer."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import uvloop

from benchmarks.http import Caller
from benchmarks.peers import SPAWN

ACCEPTED, GIVE_BACK_SECONDS = 202, 0.002
TICKET = (
    "Since this morning my password is refused in the app and in the browser. I reset it twice and the mail arrived, "
    "but the new one is refused too. 从今天早上开始无法登录，重置密码也没有用。"
)


@dataclass(frozen=True)
class Target:
    """Where and how tasks are posted: the same request for every system but for address, key and ability."""

    url: str
    key: str
    ability: str
    callback_url: str
    extra: dict[str, Any] = field(default_factory=dict)

    def body(self, marker: str) -> bytes:
        payload = {"ticketTitle": "Cannot log in", "ticketContent": TICKET, "channel": "app", "marker": marker}
        request = {
            "correlationId": marker,
            "target": {"ability": self.ability},
            "payload": payload,
            "callback": {"type": "http", "url": self.callback_url},
        }
        return json.dumps(request | self.extra, ensure_ascii=False).encode()

    def caller(self) -> Caller:
        address = urlsplit(self.url)
        head = (
            f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {self.key}\r\n"
            "Content-Type: application/json\r\n"
        )
        return Caller(address.hostname or "", address.port or 80, head.encode())


@dataclass(frozen=True)
class Post:
    """One POST: when it was begun and answered (seconds since the epoch), and the status (0 = connection lost)."""

    marker: str
    begun_at: float
    answered_at: float
    status: int


async def post(target: Target, caller: Caller) -> Post:
    """Post one new task."""
    marker = uuid.uuid4().hex
    body, begun_at = target.body(marker), time.time()
    try:
        status = await caller.post(body)
    except OSError:
        status = 0
    return Post(marker, begun_at, time.time(), status)


async def closed_loop(target: Target, connections: int, seconds: float, outstanding: int, done: Any) -> list[Post]:
    """Post on every connection as soon as the last answer is in, with at most `outstanding` tasks under way.

    `done` is the receiver's shared count of callbacks.
    """
    posts: list[Post] = []
    room, end = asyncio.Semaphore(outstanding), time.monotonic() + seconds
    giving_back = asyncio.create_task(give_back(room, done))

    async def keep_posting(caller: Caller) -> None:
        while time.monotonic() < end:
            await room.acquire()
            posts.append(await post(target, caller))
            if posts[-1].status != ACCEPTED:
                room.release()

    callers = [target.caller() for _ in range(connections)]
    await asyncio.gather(*(keep_posting(caller) for caller in callers))
    giving_back.cancel()
    for caller in callers:
        caller.close()
    return posts


async def give_back(room: asyncio.Semaphore, done: Any) -> None:
    """Turn callbacks into room for new tasks, for ever."""
    seen = done.value
    while True:
        await asyncio.sleep(GIVE_BACK_SECONDS)
        seen, before = done.value, seen
        for _ in range(seen - before):
            room.release()


async def open_loop(target: Target, rate: float, seconds: float) -> list[Post]:
    """Post `rate` tasks per second whatever the answers do, each on an idle connection or a new one."""
    idle: list[Caller] = []

    async def post_once() -> Post:
        caller = idle.pop() if idle else target.caller()
        result = await post(target, caller)
        idle.append(caller)
        return result

    begin, running = time.monotonic(), list[asyncio.Task[Post]]()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
        running.append(asyncio.create_task(post_once()))
    return await asyncio.gather(*running)


class Generator:
    """Runs one loop in a process of its own; `result` waits for its posts."""

    def __init__(self, loop: Callable[..., Awaitable[list[Post]]], *arguments: Any):
        self._pipe, far_end = SPAWN.Pipe()
        self._process = SPAWN.Process(target=generate, args=(loop, arguments, far_end), daemon=True)
        self._process.start()
        self.pid = int(self._process.pid or 0)
        self._pipe.recv()  # the process is up; what follows is load only

    def result(self) -> list[Post]:
        posts: list[Post] = self._pipe.recv()
        self._process.join()
        return posts


def generate(loop: Callable[..., Any], arguments: tuple, pipe: Any) -> None:
    """Run one loop and send its posts."""
    pipe.send("ready")
    pipe.send(uvloop.run(loop(*arguments)))

"""Plain heartbeats, answered past Django's handling of requests and many at a time.

Nine requests of ten are heartbeats where there are many instances. Those that arrive while a batch is under way make up
the next: the more there are, the less each costs. Whatever is unusual about one, or wrong, is left to the view, which
finds it all again: a heartbeat that is heard twice is one.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError

from common import json
from common.clock import now
from common.encoding import dumps
from common.errors import ReachError
from common.secrets import hash_key
from reach_platform.front.threads import Threads
from reach_platform.front.types import Answer, Scope
from reach_platform.middleware import DATA
from registry import bodies, selectors
from registry.health import HEARTBEAT_INTERVAL_MS
from registry.manifest import plain_numbers
from registry.services.heartbeats import Heard, Said, heartbeats

log = logging.getLogger(__name__)

LIMIT = 200  # heartbeats in a batch
GATHER_S = 0.003  # after a batch, for each heartbeat that it held: under load fewer, larger ones
LONGEST_GATHER_S = 0.015
WORK = ("agent:register", "agent:work")
_NAME = rb"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"  # names with other characters are the view's
_PATH = re.compile(rb"/v1/agents/(%s)/instances/(%s)/heartbeat" % (_NAME, _NAME))
_KEY = re.compile(rb"Bearer ([\x21-\x7e]{1,512})")
_ACCEPTED = frozenset({b"", b"*/*", b"application/json"})
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-security-policy", DATA.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class Plain(NamedTuple):
    """A heartbeat as it came."""

    agent_id: str
    instance_id: str
    key: str
    raw: bytes


class HeartbeatLane:
    """Gathers plain heartbeats on the event loop and has one thread do the `work` of each batch."""

    def __init__(self, work: Callable[[list[Plain]], list[Answer | None]] | None = None):
        self._work = work or answers
        self._thread = Threads(1, "heartbeats")
        self._waiting: deque[tuple[Plain, asyncio.Future[Answer | None]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def answer(self, scope: Scope, body: bytes) -> Answer | None:
        """The answer to a plain heartbeat; None where there is anything else to say."""
        plain = as_plain(scope, body)
        if plain is None:
            return None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer | None] = loop.create_future()
        self._waiting.append((plain, future))
        if self._running is None:
            self._running = loop.create_task(self._run())
        return await future

    def close(self) -> None:
        """Let the thread end."""
        self._thread.close()

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(LIMIT, len(self._waiting)))]
                made = await self._thread.run(self._work, [plain for plain, _ in batch])
                for (_, future), answer in zip(batch, made, strict=True):
                    if not future.done():
                        future.set_result(answer)
                await asyncio.sleep(min(GATHER_S * len(batch), LONGEST_GATHER_S))
        finally:
            self._running = None


def as_plain(scope: Scope, body: bytes) -> Plain | None:
    """The request as a plain heartbeat, if it is one."""
    place = _PATH.fullmatch(scope["raw_path"])
    if place is None or scope["method"] != "POST" or scope["query_string"]:
        return None
    headers = dict(scope["headers"])
    key = _KEY.fullmatch(headers.get(b"authorization", b""))
    usual = headers.get(b"content-type") == b"application/json" and headers.get(b"accept", b"") in _ACCEPTED
    if key is None or not usual or len(headers) != len(scope["headers"]):  # said twice
        return None
    return Plain(place[1].decode(), place[2].decode(), key[1].decode(), body)


def answers(batch: list[Plain]) -> list[Answer | None]:
    """The answer to each heartbeat; None for each that is the view's. Never raises."""
    try:
        at = now()
        said = [_said(plain, at) for plain in batch]
        heard = iter(heartbeats([one for one in said if one], now=at))
        found = [next(heard) if one else None for one in said]
        return [_answer(one) if one else None for one in found]
    except Exception:
        log.exception("heartbeats are left to the view")
        return [None] * len(batch)


def _said(plain: Plain, at: datetime) -> Said | None:
    try:
        known = selectors.credential_by_key(hash_key(plain.key), at)
        body = json.parse_object(plain.raw)
    except (ReachError, DatabaseError, InterfaceError):
        return None
    principal = known.principal if known else None
    if principal is None or principal.namespace is None or principal.kind != "agent":
        return None
    allowed = principal.agent_id == plain.agent_id and principal.may(*WORK)
    if not allowed or bodies.heartbeat.errors(body):
        return None
    return Said((principal.namespace, plain.agent_id, plain.instance_id), plain_numbers(body))


def _answer(heard: Heard) -> Answer:
    raw = dumps({"state": heard.state, "score": heard.score, "nextHeartbeatMs": HEARTBEAT_INTERVAL_MS,
                 "registered": heard.registered})  # fmt: skip
    return Answer(200, [*_HEADERS, (b"content-length", str(len(raw)).encode())], raw)

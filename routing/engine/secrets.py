"""Webhook secrets for the deliverer: read on a thread, then kept for seconds, or until their namespace changes."""

import asyncio
import datetime as dt
import time
from collections.abc import Callable
from concurrent.futures import Executor

from common import clock

KEPT_S = 3.0
LIMIT = 10_000

Read = Callable[[str, str, dt.datetime], list[str]]
Version = Callable[[str], int | None]
Key = tuple[str, str, int | None]


class SecretsCache:
    """The secrets of (namespace, client) that count now; a rotation raises the namespace's version."""

    def __init__(self, read: Read, version: Version, executor: Executor):
        self._read, self._version, self._executor = read, version, executor
        self._kept: dict[tuple[str, str], tuple[float, int | None, list[str]]] = {}
        self._reading: dict[Key, asyncio.Future[list[str]]] = {}

    async def of(self, namespace: str, client: str) -> list[str]:
        """They; five hundred who ask at once are one query."""
        kept, version = self._kept.get((namespace, client)), self._version(namespace)
        if kept is not None and kept[1] == version and time.monotonic() - kept[0] < KEPT_S:
            return kept[2]
        key = namespace, client, version
        if key not in self._reading:
            self._reading[key] = asyncio.ensure_future(self._read_now(key))
        return await asyncio.shield(self._reading[key])

    async def _read_now(self, key: Key) -> list[str]:
        namespace, client, version = key
        try:
            loop = asyncio.get_running_loop()
            secrets = await loop.run_in_executor(self._executor, self._read, namespace, client, clock.now())
        finally:
            del self._reading[key]
        if len(self._kept) >= LIMIT:
            self._kept.clear()
        self._kept[namespace, client] = (time.monotonic(), version, secrets)
        return secrets

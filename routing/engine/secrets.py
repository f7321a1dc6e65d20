"""Webhook secrets for the deliverer: read on a thread, then kept for a few seconds on the loop."""

import asyncio
import datetime as dt
import time
from collections.abc import Callable
from concurrent.futures import Executor

from common import clock

KEPT_S = 3.0
LIMIT = 10_000

Read = Callable[[str, str, dt.datetime], list[str]]


class SecretsCache:
    """The secrets of (namespace, client) that count now."""

    def __init__(self, read: Read, executor: Executor):
        self._read, self._executor = read, executor
        self._kept: dict[tuple[str, str], tuple[float, list[str]]] = {}

    async def of(self, namespace: str, client: str) -> list[str]:
        kept = self._kept.get((namespace, client))
        if kept is not None and time.monotonic() - kept[0] < KEPT_S:
            return kept[1]
        loop = asyncio.get_running_loop()
        secrets = await loop.run_in_executor(self._executor, self._read, namespace, client, clock.now())
        if len(self._kept) >= LIMIT:
            self._kept.clear()
        self._kept[namespace, client] = (time.monotonic(), secrets)
        return secrets

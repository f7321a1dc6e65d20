"""Retry budgets as all processes share them: asked for a batch of sends at a time, told of first sends each second.

While Redis is away each process keeps to a budget of its own.
"""

import threading
from collections import Counter
from collections.abc import Sequence

import msgspec

from common import redis
from routing.breaker import shared
from routing.breaker.budget import FULL, Budget, next_at, spent
from routing.breaker.shared import Swap
from routing.trip import Dispatch

EACH_S = 1.0
TRIES = 8
KEPT_MS = 60_000
BUDGETS_KEPT = 10_000

Key = tuple[str, str]  # namespace, ability

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Budget).decode


class RetryBudgets:
    """One a process. Safe to use from any thread; may wait for Redis."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: Counter[Key] = Counter()  # first sends that the others do not know of
        self._told_at = 0.0
        self._known: dict[Key, Budget] = {}
        self._next: dict[Key, float] = {}  # before that there is nothing to ask for

    def over(self, dispatches: Sequence[Dispatch], now: float) -> list[bool]:
        """For each of these sends whether it is a retry that its ability's budget forbids."""
        wanted: Counter[Key] = Counter()
        with self._lock:
            for one in dispatches:
                if is_retry(one):
                    wanted[_key(one)] += 1
                else:
                    self._sent[_key(one)] += 1
            granted = self._granted(wanted, now)
        return [is_retry(one) and not _take_one(granted, _key(one)) for one in dispatches]

    def _granted(self, wanted: Counter[Key], now: float) -> Counter[Key]:
        asked = {key: count for key, count in wanted.items() if now >= self._next.get(key, 0.0)}
        is_time = now - self._told_at >= EACH_S
        keys = set(asked) | (set(self._sent) if is_time else set())
        if is_time:
            self._told_at = now
        return self._exchanged(keys, asked, now) if keys else Counter()

    def _exchanged(self, keys: set[Key], asked: dict[Key, int], now: float) -> Counter[Key]:
        granted: Counter[Key] = Counter()
        try:
            for _ in range(TRIES):
                keys = self._exchange(sorted(keys), asked, now, granted)
                if not keys:
                    break
        except redis.RedisAway:
            for key in keys:
                after, granted[key] = spent(self._known.get(key, FULL), self._sent[key], asked.get(key, 0), now)
                self._note(key, after, now)
        return granted

    def _exchange(self, keys: list[Key], asked: dict[Key, int], now: float, granted: Counter[Key]) -> set[Key]:
        """One try; returns the keys for which another process was faster."""
        found = shared.read([_at(key) for key in keys])
        before = [_decode(raw) if raw else self._known.get(key, FULL) for key, raw in zip(keys, found, strict=True)]
        made = [spent(one, self._sent[key], asked.get(key, 0), now) for key, one in zip(keys, before, strict=True)]
        swaps = [
            [Swap(_at(key), raw, _encode(after), KEPT_MS)]
            for key, raw, (after, _) in zip(keys, found, made, strict=True)
        ]
        slower = set()
        for key, (after, count), is_done in zip(keys, made, shared.swap(swaps), strict=True):
            if is_done:
                granted[key] = count
                self._note(key, after, now)
            else:
                slower.add(key)
        return slower

    def _note(self, key: Key, after: Budget, now: float) -> None:
        if len(self._known) > BUDGETS_KEPT:
            self._known.clear()
            self._next.clear()
        self._known[key] = after
        del self._sent[key]
        self._next[key] = next_at(after, now)


def is_retry(dispatch: Dispatch) -> bool:
    """Whether it was sent before by itself; neither a person's retry nor a substitute's first send is one."""
    task = dispatch.task
    first = int(task.fallback["since"]) if task.fallback else 0
    return task.state == "RETRY_WAIT" and task.attempts > first


def _take_one(granted: Counter[Key], key: Key) -> bool:
    granted[key] -= 1
    return granted[key] >= 0


def _key(dispatch: Dispatch) -> Key:
    return dispatch.task.namespace, dispatch.task.serving


def _at(key: Key) -> str:
    return f"rb:{_encode(key).decode()}"

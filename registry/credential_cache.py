"""Credentials for the hot path: a bounded cache in this process, so that a known key costs no query.

A revoked key works for at most `SECONDS` longer in other processes; the process that revokes it forgets at once.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from registry.principal import Principal

SECONDS = 5.0
LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """What authentication needs of a credential; `secret_key` is encrypted."""

    principal: Principal
    secret_key: bytes
    expires_at: datetime | None

    def is_good(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class CredentialCache:
    """Least recently used entries go first; an entry is read again after `seconds`. Unknown keys are not kept."""

    def __init__(self, seconds: float = SECONDS, limit: int = LIMIT, clock: Callable[[], float] = time.monotonic):
        self._seconds, self._limit, self._clock = seconds, limit, clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[float, KnownCredential]] = OrderedDict()
        self._generation = 0

    def get(self, name: str, load: Callable[[], KnownCredential | None]) -> KnownCredential | None:
        with self._lock:
            entry = self._entries.get(name)
            if entry and self._clock() - entry[0] < self._seconds:
                self._entries.move_to_end(name)
                return entry[1]
            generation = self._generation
        read_at, known = self._clock(), load()
        with self._lock:
            # What was read before a change must not be kept after it.
            if known is None or generation != self._generation:
                self._entries.pop(name, None)
                return known
            self._entries[name] = (read_at, known)
            self._entries.move_to_end(name)
            while len(self._entries) > self._limit:
                self._entries.popitem(last=False)
        return known

    def forget_all(self) -> None:
        with self._lock:
            self._generation += 1
            self._entries.clear()


CACHE = CredentialCache()

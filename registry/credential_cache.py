"""Credentials for the hot path: a bounded cache in this process, so that a known key costs no query.

A change of a credential or of its client is forgotten at once in the process that makes it, and told to the others,
who forget within milliseconds. Where a hint is lost, because Redis is away, it holds for at most `SECONDS` longer.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from common import broadcast
from registry.principal import Principal

CHANNEL = "credentials"
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
    """Least recently used entries go first; an entry is read again after `seconds`. Unknown keys are not kept.

    From its first use it listens for changes that other processes make; `hears` is set while it does.
    """

    def __init__(self, seconds: float = SECONDS, limit: int = LIMIT, clock: Callable[[], float] = time.monotonic):
        self._seconds, self._limit, self._clock = seconds, limit, clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[float, KnownCredential]] = OrderedDict()
        self._generation = 0
        self._listener: broadcast.Listener | None = None
        self.hears = threading.Event()

    def get(self, name: str, load: Callable[[], KnownCredential | None]) -> KnownCredential | None:
        if self._listener is None or not self._listener.is_alive():  # also after a fork
            self._listen()
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

    def close(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            self._listener.stop()

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None or not self._listener.is_alive():
                self._listener = broadcast.Listener([CHANNEL], lambda channel, message: self.forget_all(), self._missed)
                self._listener.start()

    def _missed(self) -> None:
        self.forget_all()
        self.hears.set()


CACHE = CredentialCache()


def forget_everywhere() -> None:
    """A credential or a client has changed: no process is to go by what it knows. After the commit."""
    CACHE.forget_all()
    broadcast.publish(CHANNEL, {})

"""Identifiers: UUIDv7 for rows (RFC 9562) and W3C trace context ids.

A row's UUIDv7 names its time partition, so whatever belongs to a task takes a `sibling` of the task's id.

These ids are unique and no secrets: whoever can foresee one gains nothing. Keys and passwords come from `secrets`.
"""

import hashlib
import os
import random
import re
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

from common.clock import millis

_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_VERSION_AND_VARIANT = 7 << 76 | 0b10 << 62
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The system's source releases the interpreter lock, and under load each call waits about 100 µs to get it back.
_random = random.Random()  # noqa: S311 - see above
os.register_at_fork(after_in_child=_random.seed)


class _Sequence:
    """A counter that starts anew each millisecond: rand_a and the upper 14 bits of rand_b (RFC 9562, 6.2, method 1)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ms = -1
        self._counter = 0

    def next(self, ms: int, may_lag: bool) -> tuple[int, int]:
        with self._lock:
            if ms > self._ms or (may_lag and ms != self._ms):
                self._ms = ms
                self._counter = _random.getrandbits(24)
            else:
                self._counter += 1
            return self._ms, self._counter


_by_clock = _Sequence()
_by_caller = _Sequence()


def _build(ms: int, random_bits: int) -> uuid.UUID:
    """A UUIDv7 of 48 bits of milliseconds and 74 other bits."""
    upper, lower = random_bits >> 62, random_bits & ((1 << 62) - 1)
    return uuid.UUID(int=ms << 80 | _VERSION_AND_VARIANT | upper << 64 | lower)


def uuid7(at: datetime | None = None) -> uuid.UUID:
    """A new UUIDv7 of this moment or of `at`; ids of one process rise, also within a millisecond."""
    if at is None:
        ms, counter = _by_clock.next(time.time_ns() // 1_000_000, may_lag=False)
    else:
        ms, counter = _by_caller.next(millis(at), may_lag=True)
    return _build(ms, counter << 48 | _random.getrandbits(48))


def sibling(id: uuid.UUID) -> uuid.UUID:
    """A new UUIDv7 with the milliseconds of `id` and 74 random bits, so that both rows share a time partition."""
    return _build(id.int >> 80, _random.getrandbits(74))


def time_of(id: uuid.UUID) -> datetime:
    """The moment that a UUIDv7 carries, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=id.int >> 80)


def floor_id(at: datetime) -> uuid.UUID:
    """The lowest UUIDv7 of that millisecond: the bound of a time partition or range."""
    return _build(millis(at), 0)


def parse_id(text: object) -> uuid.UUID | None:
    """The UUID of the canonical spelling, 36 characters in lower case; None for every other spelling or type."""
    if not isinstance(text, str) or _CANONICAL.fullmatch(text) is None:
        return None
    return uuid.UUID(text)


def random_hex(digits: int) -> str:
    """That many random lower-case hex digits: unique when there are many, never secret."""
    return f"{_random.getrandbits(4 * digits):0{digits}x}"


def new_trace_id() -> str:
    """32 random lower-case hex digits."""
    return random_hex(32)


def trace_id_of(text: str) -> str:
    """A caller's own trace name as a W3C trace id: itself when it is one, else the first 16 bytes of its SHA-256."""
    if _TRACE_ID.fullmatch(text) and text != _NO_TRACE:
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def parse_traceparent(text: str | None) -> tuple[str, str] | None:
    """(trace id, span id) of a W3C `traceparent`; None when absent or broken. Later versions may carry more fields."""
    match = _TRACEPARENT.fullmatch(text) if text else None
    if match is None:
        return None
    version, trace_id, span_id, _flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return trace_id, span_id


def traceparent(trace_id: str) -> str:
    """A sampled `traceparent` header of this trace with a new span id."""
    return f"00-{trace_id}-{random_hex(16)}-01"

"""Token buckets that all web processes share: one Redis script, in one round trip, for all that a batch of tasks needs.

A bucket is one number, the time at which it will be full again. What takes a token moves that time on by
1 / rate; a task is let through while it is no further away than a whole bucket is worth. The key expires when the
bucket is full. Without Redis each process has buckets of its own, with its part of the rate.
"""

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from common import redis

_TAKE = redis.Script("""
local t = redis.call('TIME')
local now = t[1] + t[2] / 1e6
local every, room, full_at, owed = {}, {}, {}, {}
for i = 1, #KEYS do
  every[i] = tonumber(ARGV[2 * i - 1])
  room[i] = every[i] * tonumber(ARGV[2 * i])
  local kept = tonumber(redis.call('GET', KEYS[i]) or now)
  full_at[i] = math.min(math.max(kept, now), now + room[i])
  owed[i] = 0
end
local taken, answer = {}, {}
for item = 2 * #KEYS + 1, #ARGV do
  local short, longest = 0, 0
  for word in string.gmatch(ARGV[item], '%d+') do
    local i = tonumber(word)
    local wait = full_at[i] + every[i] * (1 + owed[i]) - room[i] - now
    if full_at[i] + every[i] - room[i] - now > 1e-5 and wait > longest then
      short, longest = i, wait
    end
  end
  for word in string.gmatch(ARGV[item], '%d+') do
    local i = tonumber(word)
    if short == 0 then
      full_at[i] = full_at[i] + every[i]
      taken[i] = true
    else
      owed[i] = owed[i] + 1
    end
  end
  answer[#answer + 1] = short
  answer[#answer + 1] = math.ceil(longest * 1000)
end
for i in pairs(taken) do
  redis.call('SET', KEYS[i], string.format('%.6f', full_at[i]), 'PX', math.ceil((full_at[i] - now) * 1000) + 1)
end
return answer
""")
_GIVE_BACK = redis.Script("""
for i = 1, #KEYS do
  local full_at, left = redis.call('GET', KEYS[i]), redis.call('PTTL', KEYS[i])
  local back_ms = tonumber(ARGV[i]) * 1000
  if full_at and left > back_ms then
    redis.call('SET', KEYS[i], string.format('%.6f', full_at - ARGV[i]), 'PX', math.ceil(left - back_ms))
  elseif full_at then
    redis.call('DEL', KEYS[i])
  end
end
""")
_EPSILON_S = 1e-5
_LOCAL_LIMIT = 10_000  # buckets of this process after which the full ones are forgotten


@dataclass(frozen=True, slots=True)
class Bucket:
    """`name` is what a caller is told, `key` tells it from all others; `rate` in tokens a second, `burst` in tokens."""

    name: str
    key: str
    rate: float
    burst: int

    @property
    def every_s(self) -> float:
        """Seconds until the next token."""
        return 1 / self.rate


@dataclass(frozen=True, slots=True)
class Shortage:
    """Which bucket had no token, and in how many seconds there is one for this task."""

    bucket: Bucket
    wait_s: float


def bucket(name: str, limits: Mapping[str, Any], *owner: str) -> Bucket | None:
    """The bucket of `limits` ({"ratePerSecond", "burst"}), or None; without a burst it holds what a second brings."""
    rate = limits.get("ratePerSecond")
    if rate is None:
        return None
    burst = limits.get("burst")
    return Bucket(name, redis.key("bucket", *owner), float(rate), int(burst or max(1, math.ceil(rate))))


def take(wants: Sequence[Sequence[Bucket]]) -> list[Shortage | None]:
    """Take one token of each of its buckets for every item, in order; None where there were enough.

    An item that finds one of its buckets empty takes nothing. Waits are such that the refused items of one call all
    get through when each of them waits as long as it is told and nobody else takes the tokens.
    """
    buckets = {one.key: one for want in wants for one in want}
    if not buckets:
        return [None] * len(wants)
    order = {key: number for number, key in enumerate(buckets, 1)}
    args: list[Any] = [value for one in buckets.values() for value in (repr(one.every_s), one.burst)]
    args += [" ".join(str(order[one.key]) for one in want) for want in wants]
    try:
        answers = redis.call(lambda client: _TAKE(client, list(buckets), args))
    except redis.RedisAway:
        return _local.take(wants, settings.REACH_WEB_WORKERS, time.monotonic())
    known = [None, *buckets.values()]
    pairs = zip(answers[::2], answers[1::2], strict=True)
    return [_shortage(known[short], ms) for short, ms in pairs]


def give_back(wants: Sequence[Sequence[Bucket]]) -> None:
    """Return the tokens of items that became no task of their own."""
    seconds = _seconds(wants)
    if not seconds:
        return
    try:
        redis.call(lambda client: _GIVE_BACK(client, list(seconds), [repr(value) for value in seconds.values()]))
    except redis.RedisAway:
        _local.give_back(wants, settings.REACH_WEB_WORKERS)


def _shortage(one: Bucket | None, wait_ms: int) -> Shortage | None:
    return Shortage(one, wait_ms / 1000) if one else None


def _seconds(wants: Sequence[Sequence[Bucket]]) -> dict[str, float]:
    """By key, what the tokens are worth in seconds."""
    seconds: dict[str, float] = {}
    for one in _each(wants):
        seconds[one.key] = seconds.get(one.key, 0) + one.every_s
    return seconds


def _each(wants: Sequence[Sequence[Bucket]]) -> Iterator[Bucket]:
    return (one for want in wants for one in want)


class Local:
    """The same buckets in this process alone, each with one `parts`-th of the rate. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._full_at: dict[str, float] = {}

    def take(self, wants: Sequence[Sequence[Bucket]], parts: int, now: float) -> list[Shortage | None]:
        """As the function `take`; `now` is monotonic."""
        owed: dict[str, int] = {}
        with self._lock:
            if len(self._full_at) > _LOCAL_LIMIT:
                self._full_at = {key: at for key, at in self._full_at.items() if at > now}
            return [self._take(want, parts, now, owed) for want in wants]

    def give_back(self, wants: Sequence[Sequence[Bucket]], parts: int) -> None:
        with self._lock:
            for one in _each(wants):
                self._full_at[one.key] = self._full_at.get(one.key, 0) - one.every_s * parts

    def _take(self, want: Sequence[Bucket], parts: int, now: float, owed: dict[str, int]) -> Shortage | None:
        short: Shortage | None = None
        for one in want:
            missing = self._after(one, parts, now) - now
            wait = missing + one.every_s * parts * owed.get(one.key, 0)
            if missing > _EPSILON_S and (short is None or wait > short.wait_s):
                short = Shortage(one, wait)
        for one in want:
            if short is None:
                self._full_at[one.key] = self._after(one, parts, now) + _room(one, parts)
            else:
                owed[one.key] = owed.get(one.key, 0) + 1
        return short

    def _after(self, one: Bucket, parts: int, now: float) -> float:
        """When there is a token: in the past while there are several."""
        room = _room(one, parts)
        full_at = min(max(self._full_at.get(one.key, now), now), now + room)
        return full_at + one.every_s * parts - room


def _room(one: Bucket, parts: int) -> float:
    """What a full bucket is worth in seconds: its part of the burst, one token at least, at its part of the rate."""
    return one.every_s * parts * max(1, one.burst // parts)


_local = Local()


def _renew_after_fork() -> None:
    """A forked child has perhaps a lock that nobody will release."""
    global _local
    _local = Local()


os.register_at_fork(after_in_child=_renew_after_fork)

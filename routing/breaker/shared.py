"""Values that all processes share, kept in Redis: read, and exchanged only where nobody else was faster.

cb            sorted set: names of circuits that are not closed, by when they opened
cb:{name}     a circuit as JSON; gone once nothing in it matters any more
rb:{name}     a retry budget as JSON
"""

import hashlib
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from common import redis

_SWAP = """
for i = 1, #KEYS do
  if (redis.call('GET', KEYS[i]) or '') ~= ARGV[3 * i - 2] then return 0 end
end
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[3 * i - 1], 'PX', ARGV[3 * i]) end
return 1"""
_SHA = hashlib.sha1(_SWAP.encode()).hexdigest()  # noqa: S324 - Redis names scripts so
LONGEST_OPEN_S = 86_400


class Swap(NamedTuple):
    """Keep `new` for `ms` milliseconds, if what is there is still `old` (empty: nothing)."""

    key: str
    old: bytes
    new: bytes
    ms: int


def read(keys: Collection[str]) -> list[bytes]:
    """What is kept under these keys; empty where there is nothing. Raises RedisAway."""
    if not keys:
        return []
    return [found or b"" for found in redis.call(lambda client: client.mget([redis.key(key) for key in keys]))]


def swap(groups: Collection[Collection[Swap]]) -> list[bool]:
    """Exchange each group's values, all of a group or none, in one round trip; which were. Raises RedisAway."""

    def work(client: Any) -> list[bool]:
        pipe = client.pipeline(transaction=False)
        pipe.script_load(_SWAP)  # 20 µs, and a Redis that was restarted knows it again
        for group in groups:
            values = [value for one in group for value in (one.old, one.new, one.ms)]
            pipe.evalsha(_SHA, len(group), *(redis.key(one.key) for one in group), *values)
        return [bool(made) for made in pipe.execute()[1:]]

    return redis.call(work) if groups else []


def list_open(opened: Iterable[tuple[str, float]], closed: Collection[str]) -> None:
    """Have every process know which circuits are open. Raises RedisAway."""
    added = dict(opened)

    def work(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        if added:
            pipe.zadd(redis.key("cb"), added)
        if closed:
            pipe.zrem(redis.key("cb"), *closed)
        pipe.execute()

    if added or closed:
        redis.call(work)


def names_of_open(now: float) -> list[str]:
    """Names of the circuits that are not closed; those of yesterday are forgotten. Raises RedisAway."""

    def work(client: Any) -> list[bytes]:
        pipe = client.pipeline(transaction=False)
        pipe.zremrangebyscore(redis.key("cb"), "-inf", now - LONGEST_OPEN_S)
        pipe.zrange(redis.key("cb"), 0, -1)
        found: list[bytes] = pipe.execute()[1]
        return found

    return [name.decode() for name in redis.call(work)]

"""Who is open: the tasks that hold one of their client's places, as a sorted set in Redis that is allowed to lag.

open:{namespace}:{client}   members are task ids, scores when they were added (ms, Redis's clock);
                            the member `*` says that the set is whole, its score when it is to be looked through at last

Ended tasks stay in the set until somebody looks it through; whoever finds it full does so before he refuses.
Every function raises RedisAway.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from common import redis

KEPT_MS = 3_600_000
LEAST_LOOK = 256  # ids that may gather before the ended ones are taken out

_TAKE = redis.Script("""
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local whole, counts, answer = {}, {}, {}
for i = 1, #KEYS do
  whole[i] = tonumber(redis.call('ZSCORE', KEYS[i], '*') or -1)
  counts[i] = redis.call('ZCARD', KEYS[i]) - 1
end
for n = 1, #ARGV, 3 do
  local i, most, id = tonumber(ARGV[n]), tonumber(ARGV[n + 1]), ARGV[n + 2]
  if whole[i] < 0 then
    answer[#answer + 1] = 2
  elseif redis.call('ZSCORE', KEYS[i], id) then
    answer[#answer + 1] = 0
  elseif counts[i] >= most or counts[i] >= whole[i] then
    answer[#answer + 1] = 1
  else
    redis.call('ZADD', KEYS[i], now, id)
    redis.call('PEXPIRE', KEYS[i], 3600000)
    counts[i] = counts[i] + 1
    answer[#answer + 1] = 0
  end
end
return answer
""")


class Verdict(IntEnum):
    """What became of one that wants a place; FULL may be for ended tasks only, UNKNOWN wants a `fill` first."""

    TAKEN = 0
    FULL = 1
    UNKNOWN = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A place of this client's for this task, of which it may have `most`."""

    namespace: str
    client: str
    most: int
    task_id: uuid.UUID

    @property
    def key(self) -> str:
        return redis.key("open", self.namespace, self.client)


def take(wanted: Sequence[Wanted]) -> list[Verdict]:
    """Give places in order, in one round trip; one that its task has already is given again."""
    order = {key: number for number, key in enumerate(dict.fromkeys(one.key for one in wanted), 1)}
    args = [value for one in wanted for value in (order[one.key], one.most, str(one.task_id))]
    return [Verdict(answer) for answer in redis.call(lambda client: _TAKE(client, list(order), args))]


def members(key: str) -> dict[uuid.UUID, float]:
    """The tasks in the set, each with the seconds since it was added."""

    def read(client: Any) -> dict[uuid.UUID, float]:
        pipe = client.pipeline(transaction=False)
        pipe.time()
        pipe.zrange(key, 0, -1, withscores=True)
        (seconds, micros), rows = pipe.execute()
        now = seconds + micros / 1e6
        return {uuid.UUID(member.decode()): now - score / 1000 for member, score in rows if member != b"*"}

    return redis.call(read)


def drop(key: str, gone: Sequence[uuid.UUID], left: int) -> None:
    """Take these out; `left` stay."""

    def write(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        if gone:
            pipe.zrem(key, *map(str, gone))
        # Not where it has vanished meanwhile: a set that has nothing but its mark would pass for whole.
        pipe.zadd(key, {"*": _look_at(left)}, xx=True)
        pipe.execute()

    redis.call(write)


def fill(key: str, open_ids: Sequence[uuid.UUID]) -> None:
    """Make the set whole with the tasks that the database knows."""

    def write(client: Any) -> None:
        pipe = client.pipeline()
        pipe.zadd(key, {"*": _look_at(len(open_ids)), **{str(task_id): 0 for task_id in open_ids}})
        pipe.pexpire(key, KEPT_MS)
        pipe.execute()

    redis.call(write)


def release(taken: Sequence[Wanted]) -> None:
    """Give back what requests took that became no task."""

    def write(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        for one in taken:
            pipe.zrem(one.key, str(one.task_id))
        pipe.execute()

    redis.call(write)


def forget(keys: Sequence[str]) -> None:
    """Have these filled anew: something happened that they do not know of."""
    redis.call(lambda client: client.delete(*keys))


def _look_at(count: int) -> int:
    return max(LEAST_LOOK, 2 * count)

"""Heartbeats noted in Redis: all that come together in one round trip (the keys are those of `evidence`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from common import redis
from registry.services import evidence_memory as memory
from registry.services.evidence import KEPT_S, Scored, scored_of

BEATS_KEPT = 10

_encode = msgspec.json.encode
_BAD, _GOOD, _PROVING = "bad", "good", "proving"
_HEAR = redis.Script("""
local at, kept, beats_kept, known = ARGV[1], ARGV[2], ARGV[3], {}
for n = 1, (#KEYS - 1) / 2 do
  local hb, beats = KEYS[2 * n], KEYS[2 * n + 1]
  local pk, inflight, resources, kind = unpack(ARGV, 4 * n, 4 * n + 3)
  local found = redis.call('HMGET', hb, 'rev', 'score')
  known[2 * n - 1], known[2 * n] = found[1], found[2]
  redis.call('HSET', hb, 'at', at, 'inflight', inflight, 'resources', resources)
  redis.call('EXPIRE', hb, kept)
  redis.call('ZADD', KEYS[1], at, pk)
  if kind == 'bad' then
    redis.call('DEL', beats)
  elseif kind == 'proving' then
    redis.call('LPUSH', beats, at)
    redis.call('LTRIM', beats, 0, beats_kept - 1)
    redis.call('EXPIRE', beats, kept)
  end
end
return known""")


@dataclass(frozen=True, slots=True)
class Beat:
    """One instance's heartbeat. `good` when it complains of nothing; `proving` = good ones are counted."""

    pk: int
    body: dict[str, Any]
    good: bool
    proving: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What a heartbeat gets back: the row's mark, and the last score."""

    rev: bytes | None
    scored: Scored | None


def hear(beats: Sequence[Beat], now: datetime) -> list[Known] | None:
    """Note heartbeats and give what is known of their instances, in their order; None while Redis is away."""
    at = now.timestamp()
    keys: list[str] = [redis.key("heard")]
    given: list[Any] = [at, KEPT_S, BEATS_KEPT]
    for one in beats:
        pk = str(one.pk)
        keys += (redis.key("hb", pk), redis.key("beats", pk))
        kind = _BAD if not one.good else _PROVING if one.proving else _GOOD
        given += (pk, one.body.get("inflight", -1), _encode(one.body.get("resources", {})), kind)
    try:
        found = redis.call(lambda client: _HEAR(client, keys, given))
    except redis.RedisAway:
        for one in beats:
            memory.heard(one.pk, at, one.good)
        return None
    return [Known(rev, scored_of(score)) for rev, score in zip(found[::2], found[1::2], strict=True)]

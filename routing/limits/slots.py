"""Slots: how many attempts an instance, and an ability, has in flight over all processes.

A sorted set a place; its members are attempts, their scores the times (ms, Redis's clock) at which their leases end.

slots:i:{namespace}|{agent}|{instance}    slots:a:{namespace}|{ability}
slots:epoch                               missing: Redis came back empty, nothing is granted before `mend`

Every function raises RedisAway.
"""

import contextlib
import functools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from common import redis

LEASE_MS = 15_000
BUSY, ABILITY_BUSY = "BUSY", "ABILITY_BUSY"

Place = tuple[str, ...]  # (namespace, agent id, instance id) or (namespace, ability)

_WHY = {ord("g"): "", ord("i"): BUSY, ord("a"): ABILITY_BUSY}
_HEAD = """
local given = cjson.decode(ARGV[1])
local now = given.now
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local counts = {}
local function count(n)
  if not counts[n] then
    redis.call('ZREMRANGEBYSCORE', KEYS[n], '-inf', now)
    counts[n] = redis.call('ZCARD', KEYS[n])
  end
  return counts[n]
end
local function add(n, attempt, ms)
  redis.call('ZADD', KEYS[n], 'GT', now + ms, attempt)
end
local function count_all()
  for n = 1, #KEYS do
    count(n)
    redis.call('PEXPIRE', KEYS[n], 90000000) -- a task lives a day at most
  end
  return counts
end
"""
_TAKE = redis.Script(
    _HEAD
    + """
for _, one in ipairs(given.ended) do
  redis.call('ZREM', KEYS[one[2]], one[1])
  redis.call('ZREM', KEYS[one[3]], one[1])
end
if redis.call('EXISTS', given.epoch) == 0 then return false end
local verdicts = {}
for n, one in ipairs(given.asked) do
  local attempt, instance, ability, most, ability_most = one[1], one[2], one[3], one[4], one[5]
  if most >= 0 and count(instance) >= most then
    verdicts[n] = 'i'
  elseif ability_most >= 0 and count(ability) >= ability_most then
    verdicts[n] = 'a'
  else
    counts[instance], counts[ability] = count(instance) + 1, count(ability) + 1
    add(instance, attempt, given.ms)
    add(ability, attempt, given.ms)
    verdicts[n] = 'g'
  end
end
return {table.concat(verdicts), count_all()}"""
)
_HOLD = redis.Script(
    _HEAD
    + """
for _, one in ipairs(given.held) do
  add(one[2], one[1], one[4])
  add(one[3], one[1], one[4])
end
return count_all()"""
)


@dataclass(frozen=True, slots=True)
class Slot:
    """What one attempt takes: a place of its instance's and one of its ability's. None = without a shared limit."""

    attempt: str
    instance: Place
    ability: Place
    most: int | None = None
    ability_most: int | None = None

    @property
    def places(self) -> tuple[Place, Place]:
        return self.instance, self.ability


_unsent: deque[Slot] = deque(maxlen=20_000)


@dataclass(frozen=True, slots=True)
class Taken:
    """For each slot why it was refused, empty if it was granted; and how many each place now has in flight."""

    refused: list[str]
    counts: dict[Place, int]


def take(
    asked: Sequence[Slot], ended: Sequence[Slot] = (), *, ms: int = LEASE_MS, now: int | None = None
) -> Taken | None:
    """Give back the ended ones, then take what is below its limits, in one step; None when Redis is empty: mend first.

    `now` (ms) stands in for Redis's clock.
    """
    places = _Places()
    rows = [(*places.of(s), _number(s.most), _number(s.ability_most)) for s in asked]
    gone = [places.of(slot) for slot in ended]
    given = {"asked": rows, "ended": gone, "epoch": epoch_key(), "ms": ms, "now": now}
    answer = _call(_TAKE, places, given)
    if answer is None:
        return None
    verdicts, counts = answer
    return Taken([_WHY[verdict] for verdict in verdicts], places.counted(counts))


def hold(held: Iterable[tuple[Slot, int]], *, now: int | None = None) -> dict[Place, int]:
    """Have these for at least so many ms from now, those that Redis had lost too; gives the counts of their places."""
    places = _Places()
    rows = [(*places.of(slot), ms) for slot, ms in held]
    return places.counted(_call(_HOLD, places, {"held": rows, "now": now}))


def count(wanted: Iterable[Place], *, now: int | None = None) -> dict[Place, int]:
    """How many each of these places has in flight."""
    places = _Places()
    for place in wanted:
        places.number(place)
    return places.counted(_call(_HOLD, places, {"held": [], "now": now}))


def end(slots: Iterable[Slot]) -> None:
    """Give these back, in one round trip."""
    members: dict[str, list[str]] = {}
    for slot in slots:
        for place in slot.places:
            members.setdefault(key_of(place), []).append(slot.attempt)
    if members:
        redis.call(functools.partial(_remove, members))


def end_soon(ended: Sequence[Slot]) -> None:
    """Give these back now, or with the next ones while Redis is away; never raises."""
    _unsent.extend(ended)
    todo = [_unsent.popleft() for _ in range(len(_unsent))]
    try:
        end(todo)
    except redis.RedisAway:
        _unsent.extend(todo)


def hold_soon(held: Sequence[tuple[Slot, int]]) -> None:
    """`hold` where nobody depends on it; what Redis does not hear of now it hears of when it is mended."""
    if held:
        with contextlib.suppress(redis.RedisAway):
            hold(held)


def key_of(place: Place) -> str:
    return redis.key("slots", "i" if len(place) == 3 else "a", "|".join(place))


def epoch_key() -> str:
    return redis.key("slots", "epoch")


def everything() -> dict[str, dict[str, int]]:
    """Key → attempt → end of its lease (ms), of all places."""
    return redis.call(_read_all)


def begin_epoch() -> None:
    """From now on slots are granted."""
    redis.call(lambda client: client.set(epoch_key(), 1))


def remove(members: Mapping[str, Iterable[str]]) -> None:
    """Take these attempts out of the sets of these keys."""
    redis.call(functools.partial(_remove, {key: list(given) for key, given in members.items() if given}))


class _Places:
    """The distinct places of a call, numbered from 1 as its KEYS are."""

    def __init__(self) -> None:
        self._numbers: dict[Place, int] = {}

    def number(self, place: Place) -> int:
        return self._numbers.setdefault(place, len(self._numbers) + 1)

    def of(self, slot: Slot) -> tuple[str, int, int]:
        return slot.attempt, self.number(slot.instance), self.number(slot.ability)

    def asking(self, given: dict[str, Any]) -> tuple[list[str], list[bytes]]:
        """KEYS and ARGV."""
        said = {name: one for name, one in given.items() if one is not None}
        return [key_of(place) for place in self._numbers], [msgspec.json.encode(said)]

    def counted(self, counts: Sequence[int]) -> dict[Place, int]:
        return dict(zip(self._numbers, counts, strict=True))


def _call(script: redis.Script, places: _Places, given: dict[str, Any]) -> Any:
    keys, values = places.asking(given)
    return redis.call(lambda client: script(client, keys, values))


def _number(most: int | None) -> int:
    return -1 if most is None else most


def _remove(members: Mapping[str, Sequence[str]], client: Any) -> None:
    pipe = client.pipeline(transaction=False)
    for key, given in members.items():
        pipe.zrem(key, *given)
    pipe.execute()


def _read_all(client: Any) -> dict[str, dict[str, int]]:
    keys = [key.decode() for key in client.scan_iter(redis.key("slots", "?", "*"), count=1000)]
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.zrange(key, 0, -1, withscores=True)
    found = pipe.execute()
    return {key: {m.decode(): int(at) for m, at in rows} for key, rows in zip(keys, found, strict=True)}

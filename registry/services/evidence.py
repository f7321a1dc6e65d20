"""What is heard, probed and seen of instances, kept in Redis; in this process's memory while Redis is away.

hb:{pk}       hash: at, inflight, resources, rev (changes with the row), score (as last computed), base (baseline, ms),
              slate (when it last came back: what its answers looked like before says nothing any more)
beats:{pk}    times of the newest good heartbeats in a row, kept while an instance has to prove itself
probe:{pk}    the last 20 probes           live:{pk}   the last 200 calls, both newest first
heard         sorted set: when each was last heard            active   the same for calls
dirty         set: whom to judge           prober:{name}  hash: when it probed each instance last
"""

import contextlib
import functools
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from common import redis
from registry.health import Call, Probe
from registry.services import evidence_memory as memory

PROBES_KEPT, CALLS_KEPT = 20, 200
KEPT_S = 86_400
ROUND_S = 60.0  # one prober's results that belong together
SUSPECT_S = 60

OK, NEUTRAL, FAILED = "ok", "neutral", "failed"

_encode = msgspec.json.encode
_probe = msgspec.json.Decoder(Probe).decode
_probes = msgspec.json.Decoder(list[Probe]).decode
_calls = msgspec.json.Decoder(list[Call]).decode


class Seen(NamedTuple):
    """One live call's outcome; neutral ones, which say nothing of the instance, are not kept. `fits` as in `Call`."""

    instance_pk: int
    result: str
    ms: float | None
    code: str
    at: datetime
    fits: bool | None = None


class Scored(msgspec.Struct):
    """A score with its parts; latency and success are None without traffic."""

    score: float
    health: float
    latency: float | None = None
    success: float | None = None
    last_ms: float | None = msgspec.field(default=None, name="lastMs")
    mean_ms: float | None = msgspec.field(default=None, name="meanMs")  # of the last minute


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is kept of one instance; results oldest first."""

    heard_at: float | None = None
    inflight: int | None = None
    resources: dict[str, float | None] | None = None
    baseline_ms: float | None = None
    scored: Scored | None = None
    slate_since: float = 0.0
    beats: tuple[float, ...] = ()
    probes: tuple[Probe, ...] = ()
    calls: tuple[Call, ...] = ()


def probed(instance_pk: int, ok: bool, ms: float | None, reason: str, now: datetime, prober: str) -> None:
    """Note one probe's result; `prober` names the process that probed."""
    probe = Probe(now.timestamp(), ok, ms, reason, prober)
    pk, of_prober = str(instance_pk), redis.key("prober", prober)
    key = redis.key("probe", pk)

    def work(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        pipe.lpush(key, _encode(probe)).ltrim(key, 0, PROBES_KEPT - 1).expire(key, KEPT_S)
        pipe.hset(of_prober, pk, probe.at).expire(of_prober, KEPT_S)
        pipe.sadd(redis.key("dirty"), pk)
        pipe.execute()

    try:
        redis.call(work)
    except redis.RedisAway:
        memory.probed(instance_pk, probe)


def called(batch: Iterable[Seen]) -> None:
    """Note live calls, in one round trip. Failures ask for a judgement at once, the rest waits for the scoring."""
    by_instance: dict[int, list[Call]] = defaultdict(list)
    for seen in batch:
        if seen.result != NEUTRAL:
            call = Call(seen.at.timestamp(), seen.result == OK, seen.ms, seen.code, seen.fits)
            by_instance[seen.instance_pk].append(call)
    if not by_instance:
        return
    try:
        redis.call(functools.partial(_called, by_instance))
    except redis.RedisAway:
        for instance_pk, calls in by_instance.items():
            memory.called(instance_pk, calls)


def _called(by_instance: dict[int, list[Call]], client: Any) -> None:
    pipe = client.pipeline(transaction=False)
    for instance_pk, calls in by_instance.items():
        key = redis.key("live", str(instance_pk))
        pipe.lpush(key, *map(_encode, calls[-CALLS_KEPT:])).ltrim(key, 0, CALLS_KEPT - 1).expire(key, KEPT_S)
    pipe.zadd(redis.key("active"), {str(pk): calls[-1].at for pk, calls in by_instance.items()})
    failing = [str(pk) for pk, calls in by_instance.items() if not all(call.ok for call in calls)]
    if failing:
        pipe.sadd(redis.key("dirty"), *failing)
    pipe.execute()


def read(instance_pks: Sequence[int]) -> dict[int, Kept]:
    """What is kept of these instances; all of them are in the answer."""
    try:
        return redis.call(functools.partial(_read, instance_pks)) if instance_pks else {}
    except redis.RedisAway:
        return {pk: Kept(*memory.read(pk)) for pk in instance_pks}


def _read(instance_pks: Sequence[int], client: Any) -> dict[int, Kept]:
    pipe = client.pipeline(transaction=False)
    for pk in map(str, instance_pks):
        pipe.hmget(redis.key("hb", pk), "at", "inflight", "resources", "base", "score", "slate")
        pipe.lrange(redis.key("beats", pk), 0, -1)
        pipe.lrange(redis.key("probe", pk), 0, -1)
        pipe.lrange(redis.key("live", pk), 0, -1)
    answers = pipe.execute()
    return {pk: _kept(*answers[4 * n : 4 * n + 4]) for n, pk in enumerate(instance_pks)}


def _kept(hb: list[bytes | None], beats: list[bytes], probes: list[bytes], calls: list[bytes]) -> Kept:
    at, inflight, resources, base, score, slate = hb
    return Kept(
        heard_at=float(at) if at else None,
        inflight=int(inflight) if inflight and inflight != b"-1" else None,
        resources=msgspec.json.decode(resources) if resources else None,
        baseline_ms=float(base) if base else None,
        scored=scored_of(score),
        slate_since=float(slate) if slate else 0.0,
        beats=tuple(map(float, reversed(beats))),
        probes=tuple(_probes(_joined(probes))) if probes else (),
        calls=tuple(_calls(_joined(calls))) if calls else (),
    )


def _joined(newest_first: list[bytes]) -> bytes:
    return b"[" + b",".join(reversed(newest_first)) + b"]"


def scored_of(raw: bytes | None) -> Scored | None:
    """A score as it is kept."""
    return msgspec.json.decode(raw, type=Scored) if raw else None


def mark(instance_pks: Collection[int]) -> None:
    """Have these judged."""
    if instance_pks:
        _quietly(lambda client: client.sadd(redis.key("dirty"), *map(str, instance_pks)))


def take_dirty(limit: int) -> list[int]:
    """Whom to judge; they are then no longer marked."""
    try:
        taken = redis.call(lambda client: client.spop(redis.key("dirty"), limit))
    except redis.RedisAway:
        return memory.take_dirty(limit)
    return sorted({*map(int, taken or ()), *memory.take_dirty(limit)})


def active_since(since: float) -> list[int]:
    """Instances with calls since then; older ones are forgotten."""

    def work(client: Any) -> list[bytes]:
        client.zremrangebyscore(redis.key("active"), "-inf", f"({since}")
        found: list[bytes] = client.zrange(redis.key("active"), 0, -1)
        return found

    with contextlib.suppress(redis.RedisAway):
        return [int(pk) for pk in redis.call(work)]
    return []


def heard_since(since: float) -> list[tuple[int, float]]:
    """(instance, when it was last heard) for those heard since then; who was not for a day is forgotten."""
    _quietly(lambda client: client.zremrangebyscore(redis.key("heard"), "-inf", since - KEPT_S))
    with contextlib.suppress(redis.RedisAway):
        rows = redis.call(lambda client: client.zrangebyscore(redis.key("heard"), since, "+inf", withscores=True))
        return [(int(pk), at) for pk, at in rows]
    return []


def heard_at(instance_pks: Sequence[int]) -> dict[int, float]:
    """When these were last heard, as far as it is known here."""
    if not instance_pks:
        return {}
    with contextlib.suppress(redis.RedisAway):
        times = redis.call(lambda client: client.zmscore(redis.key("heard"), [str(pk) for pk in instance_pks]))
        return {pk: at for pk, at in zip(instance_pks, times, strict=True) if at is not None}
    return {pk: at for pk in instance_pks if (at := memory.heard_at(pk)) is not None}


def since_when(now: datetime) -> float:
    """Since when all that is heard is known here: a Redis that came back empty knows nothing of the time before, and
    while it is away heartbeats are on the rows."""

    def work(client: Any) -> bytes:
        client.set(redis.key("evidence-since"), now.timestamp(), nx=True)
        found: bytes = client.get(redis.key("evidence-since"))
        return found

    try:
        since = float(redis.call(work))
    except redis.RedisAway:
        return memory.redis_away_since(now.timestamp())
    memory.redis_is_back()
    return since


def away_since(now: datetime) -> float | None:
    """Since when Redis is away, as far as this process has noticed; None while it answers."""
    try:
        redis.call(lambda client: client.ping())
    except redis.RedisAway:
        return memory.redis_away_since(now.timestamp())
    memory.redis_is_back()
    return None


def keep_scores(scores: dict[int, tuple[Scored, float | None]]) -> None:
    """Keep each instance's score and baseline."""

    def work(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        for pk, (scored, base) in scores.items():
            key = redis.key("hb", str(pk))
            pipe.hset(key, mapping={"score": _encode(scored), **({} if base is None else {"base": base})})
            pipe.expire(key, KEPT_S)
        pipe.execute()

    if scores:
        _quietly(work)


def scores(instance_pks: Sequence[int]) -> dict[int, Scored]:
    """The last scores of those that have one, in one round trip. Raises RedisAway."""

    def work(client: Any) -> list[bytes | None]:
        pipe = client.pipeline(transaction=False)
        for pk in instance_pks:
            pipe.hget(redis.key("hb", str(pk)), "score")
        found: list[bytes | None] = pipe.execute()
        return found

    raw = redis.call(work) if instance_pks else []
    return {pk: scored for pk, one in zip(instance_pks, raw, strict=True) if (scored := scored_of(one))}


def round_of(prober: str, now: datetime) -> dict[int, Probe]:
    """The newest probes of instances, as far as this prober made them, within a round."""
    since = now.timestamp() - ROUND_S

    def work(client: Any) -> dict[int, Probe]:
        probed_at = client.hgetall(redis.key("prober", prober))
        pks = [int(pk) for pk, at in probed_at.items() if float(at) >= since]
        pipe = client.pipeline(transaction=False)
        for pk in pks:
            pipe.lindex(redis.key("probe", str(pk)), 0)
        newest = {pk: _probe(raw) for pk, raw in zip(pks, pipe.execute(), strict=True) if raw}
        return {pk: probe for pk, probe in newest.items() if probe.prober == prober}

    with contextlib.suppress(redis.RedisAway):
        return redis.call(work)
    return memory.round_of(prober, since)


def suspect(prober: str) -> None:
    """Have it shown that this prober fails everywhere."""
    _quietly(lambda client: client.set(redis.key("suspect", prober), 1, ex=SUSPECT_S))


def suspects(probers: Collection[str]) -> set[str]:
    """Which of these probers fail everywhere at present."""
    names = sorted(probers)
    if names:
        with contextlib.suppress(redis.RedisAway):
            found = redis.call(lambda client: client.mget([redis.key("suspect", name) for name in names]))
            return {name for name, value in zip(names, found, strict=True) if value}
    return set()


def row_changed(instance_pks: Collection[int]) -> None:
    """Have every process read these instances' rows anew at their next heartbeat."""
    rev = uuid.uuid4().hex[:12]

    def work(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        for pk in instance_pks:
            key = redis.key("hb", str(pk))
            pipe.hset(key, "rev", rev).expire(key, KEPT_S)
        pipe.execute()

    if instance_pks:
        _quietly(work)


def begin_anew(instance_pks: Collection[int], now: datetime) -> None:
    """These came back: how their answers were before says nothing any more."""

    def work(client: Any) -> None:
        pipe = client.pipeline(transaction=False)
        for pk in instance_pks:
            pipe.hset(redis.key("hb", str(pk)), "slate", now.timestamp())
        pipe.execute()

    if instance_pks:
        _quietly(work)


def forget(instance_pk: int) -> None:
    """Begin with a clean slate: a new registration has nothing to do with what was seen before it."""
    pk = str(instance_pk)
    memory.forget(instance_pk)
    _quietly(lambda client: client.delete(*(redis.key(kind, pk) for kind in ("hb", "beats", "probe", "live"))))


def _quietly(work: Any) -> None:
    with contextlib.suppress(redis.RedisAway):
        redis.call(work)

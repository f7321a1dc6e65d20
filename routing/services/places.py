"""A client's places: it may have so many tasks that have not ended. Redis counts them, PostgreSQL has the last word.

Who finds the places taken looks up which of those tasks have ended by now; so a place is free from the moment its task
has ended, and nobody has to tell. Without Redis each process counts by itself what the database shows and what it
accepted a moment ago.
"""

import os
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from common import redis
from common.database import hot_cursor, robust
from routing.limits import places
from routing.limits.places import Verdict, Wanted

_UNDER_WAY_S = 15.0  # a task that is not in the table by then never will be
_MANY = 100  # ids that are not looked up more often than a fifth of the time
_RELOAD_S, _RELOAD_FULL_S = 1.0, 0.05
_OPEN = """
WITH open AS MATERIALIZED (SELECT id, client FROM routing_task WHERE namespace = %(namespace)s AND outcome IS NULL)
SELECT id FROM open WHERE client = %(client)s LIMIT 1000000"""
_AMONG = "SELECT id, outcome IS NULL FROM routing_task WHERE id = ANY(%(ids)s::uuid[])"
_PACE = """
WITH newest AS MATERIALIZED (
  SELECT created_at, ended_at FROM routing_task WHERE namespace = %(namespace)s AND client = %(client)s
  ORDER BY id DESC LIMIT 100
)
SELECT extract(epoch FROM percentile_cont(0.9) WITHIN GROUP (ORDER BY ended_at - created_at))::float8,
  extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE ended_at IS NULL))::float8
FROM newest"""
_LONGEST_GUESS_S = 60.0

_look_again: dict[str, float] = {}  # by key: monotonic time before which a large set is not looked through again


def reserve(wanted: Sequence[Wanted]) -> list[bool]:
    """Whether each got its place, in order."""
    if not wanted:
        return []
    try:
        return _shared(wanted)
    except redis.RedisAway:
        return _alone.reserve(wanted)


def release(taken: Sequence[Wanted]) -> None:
    """Give back what requests took that became no task."""
    if not taken:
        return
    _alone.release(taken)
    try:
        places.release(taken)
    except redis.RedisAway:
        pass  # whoever finds the set full sees that there are no such tasks


def reopened(namespace: str, client: str) -> None:
    """An ended task of this client's is open again: have them counted anew."""
    try:
        places.forget([redis.key("open", namespace, client)])
    except redis.RedisAway:
        pass


def wait_s(namespace: str, client: str) -> float:
    """In how many seconds the oldest open task of this client's has probably ended, by how long its last ones took."""
    with hot_cursor() as cursor:
        row = cursor.execute(_PACE, {"namespace": namespace, "client": client}, prepare=True).fetchone()
    usual, age = row or (None, None)
    if usual is None:  # none has ended yet; what has lasted for a while lasts as long again
        return min(age or 0.0, _LONGEST_GUESS_S)
    return max(0.0, float(usual) - (age or 0.0))


def _shared(wanted: Sequence[Wanted]) -> list[bool]:
    _alone.leave({one.key for one in wanted})
    verdicts = places.take(wanted)
    refused = [n for n, verdict in enumerate(verdicts) if verdict != Verdict.TAKEN]
    if refused:
        for one, verdict in {wanted[n].key: (wanted[n], verdicts[n]) for n in refused}.values():
            _bring_up_to_date(one, verdict)
        again = places.take([wanted[n] for n in refused])
        for n, verdict in zip(refused, again, strict=True):
            verdicts[n] = verdict
    return [verdict == Verdict.TAKEN for verdict in verdicts]


def _bring_up_to_date(one: Wanted, verdict: Verdict) -> None:
    if verdict == Verdict.UNKNOWN:
        places.fill(one.key, _open_ids(one.namespace, one.client))
    elif time.monotonic() >= _look_again.get(one.key, 0):
        began = time.monotonic()
        held = places.members(one.key)
        gone = _gone(held)
        places.drop(one.key, gone, len(held) - len(gone))
        if len(held) > _MANY:
            ended = time.monotonic()
            _look_again[one.key] = ended + 4 * (ended - began)


def _gone(held: dict[uuid.UUID, float]) -> list[uuid.UUID]:
    """Those that have ended, or were to be tasks and never came to be."""
    is_open = _among(list(held))
    return [task_id for task_id, age in held.items() if not is_open.get(task_id, age < _UNDER_WAY_S)]


@robust(patience=2.0)
def _open_ids(namespace: str, client: str) -> list[uuid.UUID]:
    with hot_cursor() as cursor:
        rows = cursor.execute(_OPEN, {"namespace": namespace, "client": client}, prepare=True).fetchall()
        return [row[0] for row in rows]


@robust(patience=2.0)
def _among(task_ids: list[uuid.UUID]) -> dict[uuid.UUID, bool]:
    """For those that are there, whether they are open."""
    with hot_cursor() as cursor:
        rows: list[Any] = cursor.execute(_AMONG, {"ids": task_ids}, prepare=True).fetchall()
        return dict(rows)


class _Alone:
    """The places as this process sees them without Redis. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, dict[uuid.UUID, float]] = {}  # by key: tasks, each with when it was accepted here
        self._loaded_at: dict[str, float] = {}

    def reserve(self, wanted: Sequence[Wanted]) -> list[bool]:
        with self._lock:
            return [self._reserve(one, time.monotonic()) for one in wanted]

    def release(self, taken: Sequence[Wanted]) -> None:
        if not self._held:
            return
        with self._lock:
            for one in taken:
                self._held.get(one.key, {}).pop(one.task_id, None)

    def leave(self, keys: set[str]) -> None:
        """Redis is back: what was accepted meanwhile is not in its sets."""
        known = keys & self._held.keys()
        if known:
            places.forget(list(known))
            with self._lock:
                for key in known:
                    self._held.pop(key, None)
                    self._loaded_at.pop(key, None)

    def _reserve(self, one: Wanted, now: float) -> bool:
        self._load(one, now, _RELOAD_S)
        if len(self._held[one.key]) >= one.most:
            self._load(one, now, _RELOAD_FULL_S)
        held = self._held[one.key]
        if one.task_id not in held and len(held) >= one.most:
            return False
        held[one.task_id] = now
        return True

    def _load(self, one: Wanted, now: float, older_s: float) -> None:
        if now - self._loaded_at.get(one.key, float("-inf")) < older_s:
            return
        own = self._held.get(one.key, {})
        is_open = _among(list(own))
        fresh = {id: at for id, at in own.items() if is_open.get(id, now - at < _UNDER_WAY_S)}
        self._held[one.key] = dict.fromkeys(_open_ids(one.namespace, one.client), float("-inf")) | fresh
        self._loaded_at[one.key] = now


_alone = _Alone()


def _renew_after_fork() -> None:
    """A forked child has perhaps a lock that nobody will release."""
    global _alone
    _alone = _Alone()


os.register_at_fork(after_in_child=_renew_after_fork)

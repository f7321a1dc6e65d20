"""Callbacks from their creation to their end: one row a message, one row a try.

`due_at` is schedule and lease in one: a claim moves it past the longest delivery, so the claim of a process that died
lapses by itself. Whoever settles a try names it by its number, so a late or doubled report changes nothing.

Of one subject only the newest message is told: an older one that comes due after a newer one was made is superseded
instead of sent, and is never begun anew, so that a receiver's picture does not go back in time. What is told on the way
(schedule `progress`) never takes the place of an end; what is told in addition (`follows`) takes nothing's place, and
waits until what came before it has ended.
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from django.db import transaction

from callbacks.messages import Due, NewCallback, Tried
from callbacks.policy import SCHEDULES, Again, Dead, Done, Step, next_step
from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from common.encoding import clean_text
from common.errors import NotFound, StateConflict
from common.ids import floor_id

LEASE = dt.timedelta(seconds=30)  # beyond the 10 s that a delivery may take and the wait for the receiver's turn
FOLLOW = dt.timedelta(seconds=5)  # what follows looks so often whether what came before it has ended
_ERROR_LIMIT = 500

_NEW = {
    "id": "uuid", "subject_id": "uuid", "namespace": "text", "client": "text", "url": "text", "auth_token": "bytea",
    "traceparent": "text", "body": "bytea", "schedule": "text", "due_at": "timestamptz", "created_at": "timestamptz",
    "follows": "bool",
}  # fmt: skip
_GIVEN = {f"new_{name}": kind for name, kind in _NEW.items()}  # apart from the parameters of a surrounding statement


def creation(subjects: str = "") -> str:
    """The INSERT of `creation_values`, to stand by itself or within another statement; gives id and subject_id.

    `subjects` is a query of ids: callbacks of other subjects are not added. One that is there already stays as it is.
    """
    among = f"WHERE g.new_subject_id IN ({subjects})" if subjects else ""
    return f"""
INSERT INTO callbacks_callback ({", ".join(_NEW)}, state, attempts, series)
SELECT g.*, 'PENDING', %(new_tries)s::int, %(new_tries)s::int FROM {unnest(_GIVEN)} {among}
ON CONFLICT DO NOTHING RETURNING id, subject_id"""  # noqa: S608 - made of constants


_CREATE = creation()

_POSTPONED = {"id": "uuid", "number": "int", "at": "timestamptz"}
_POSTPONE = f"""
WITH given AS (SELECT * FROM {unnest(_POSTPONED)}), locked AS MATERIALIZED (
  SELECT c.id FROM callbacks_callback c WHERE c.id = ANY(%(id)s::uuid[]) ORDER BY c.id FOR UPDATE
)
UPDATE callbacks_callback c SET due_at = g.at, attempts = c.attempts - 1, series = c.series - 1
FROM given g JOIN locked l ON l.id = g.id
WHERE c.id = g.id AND c.id = ANY(%(id)s::uuid[]) AND c.state = 'PENDING' AND c.attempts = g.number"""  # noqa: S608 - made of constants

_DUE_FIELDS = "id, subject_id, namespace, client, url, auth_token, traceparent, body, schedule, attempts, series"
_HAS_NEWER = """EXISTS (SELECT FROM callbacks_callback n
  WHERE n.subject_id = c.subject_id AND n.created_at > c.created_at
    AND NOT n.follows AND (c.schedule = 'progress' OR n.schedule <> 'progress'))"""
_HAS_OLDER = """EXISTS (SELECT FROM callbacks_callback o WHERE o.subject_id = c.subject_id
  AND o.created_at < c.created_at AND o.state = 'PENDING' AND o.schedule <> 'progress')"""
_CLAIM = f"""
WITH due AS MATERIALIZED (
  SELECT id FROM callbacks_callback WHERE state = 'PENDING' AND due_at <= %(now)s
  ORDER BY due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
  SELECT id, old, NOT old AND follows AND has_older AS waits FROM (
    SELECT c.id, c.follows, {_HAS_NEWER} AS old, {_HAS_OLDER} AS has_older
    FROM callbacks_callback c WHERE c.id = ANY (ARRAY(SELECT id FROM due))) c
)
UPDATE callbacks_callback c SET state = CASE WHEN j.old THEN 'SUPERSEDED' ELSE c.state END,
  due_at = CASE WHEN j.old THEN NULL WHEN j.waits THEN %(again)s ELSE %(until)s::timestamptz END,
  ended_at = CASE WHEN j.old THEN %(now)s::timestamptz END,
  attempts = c.attempts + (NOT (j.old OR j.waits))::int, series = c.series + (NOT (j.old OR j.waits))::int
FROM judged j WHERE c.id = j.id AND c.id = ANY (ARRAY(SELECT id FROM due))
RETURNING NOT (j.old OR j.waits), {", ".join("c." + name for name in _DUE_FIELDS.split(", "))}"""  # noqa: S608 - made of constants

_TRIED = {
    "id": "uuid", "number": "int", "at": "timestamptz", "status": "int", "error": "text", "took_ms": "int",
    "answer": "bytea", "state": "text", "next_at": "timestamptz",
}  # fmt: skip
_FINISH = f"""
WITH given AS (SELECT * FROM {unnest(_TRIED)}), locked AS MATERIALIZED (
  SELECT c.id FROM callbacks_callback c WHERE c.id = ANY(%(id)s::uuid[]) ORDER BY c.id FOR UPDATE
), noted AS (
  INSERT INTO callbacks_delivery (callback_id, number, at, status, error, took_ms, answer, next_at)
  SELECT g.id, g.number, g.at, g.status, g.error, g.took_ms, g.answer, g.next_at
  FROM given g JOIN locked l ON l.id = g.id
  ON CONFLICT DO NOTHING
)
UPDATE callbacks_callback c SET state = g.state, due_at = g.next_at, last_error = g.error,
  ended_at = CASE WHEN g.next_at IS NULL THEN %(now)s END
FROM given g JOIN locked l ON l.id = g.id
WHERE c.id = g.id AND c.id = ANY(%(id)s::uuid[]) AND c.state = 'PENDING' AND c.attempts = g.number
RETURNING c.id, c.state"""  # noqa: S608 - made of constants


def create(cursor: psycopg.Cursor[Any], new: Sequence[NewCallback], *, leased: bool, now: dt.datetime) -> list[Due]:
    """Add callbacks within the caller's transaction; with `leased` their first try is this process's, and returned.

    Without, they are due now. A callback whose id is there already is left as it is and not returned.
    """
    if not new:
        return []
    cursor.execute(_CREATE, creation_values(new, leased=leased, now=now), prepare=True)
    made = {row[0] for row in cursor.fetchall()}
    return first_tries(c for c in new if c.id in made) if leased else []


def creation_values(new: Sequence[NewCallback], *, leased: bool, now: dt.datetime) -> dict[str, Any]:
    """The parameters of `creation`; with `leased` the first tries are this process's (`first_tries`), else due now."""
    due_at = now + LEASE if leased else now
    rows = [
        (c.id, c.subject_id, c.namespace, c.client, c.url, c.auth_token, c.traceparent, c.body, c.schedule, due_at,
         c.created_at, c.follows)
        for c in new
    ]  # fmt: skip
    return {**arrays(_GIVEN, rows), "new_tries": int(leased)}


def first_tries(made: Iterable[NewCallback]) -> list[Due]:
    """The first tries of callbacks that were made as leased."""
    return [
        Due(
            c.id, c.subject_id, c.namespace, c.client, c.url, c.auth_token, c.traceparent, c.body, c.schedule,
            number=1, series=1,
        )
        for c in made
    ]  # fmt: skip


@robust
def claim(now: dt.datetime, limit: int) -> list[Due]:
    """At most `limit` callbacks that are due, the longest due first; their present try is this process's.

    Those that a newer one took the place of are ended, and not among them; nor are those that follow an open one.
    """
    values = {"now": now, "until": now + LEASE, "again": now + FOLLOW, "limit": limit}
    with hot_cursor() as cursor:
        cursor.execute(_CLAIM, values, prepare=True)
        return [_due(row) for is_claimed, *row in cursor.fetchall() if is_claimed]


def _due(row: Sequence[Any]) -> Due:
    id, subject_id, namespace, client, url, token, traceparent, body, schedule, number, series = row
    token = None if token is None else bytes(token)
    return Due(id, subject_id, namespace, client, url, token, traceparent, bytes(body), schedule, number, series)


def finish(tried: Sequence[Tried], now: dt.datetime) -> dict[uuid.UUID, str]:
    """Note how tries went and what follows; returns the new state of each callback that this changed.

    A try that lapsed and was overtaken by a later one is noted, and changes nothing more.
    """
    rows = [_tried_row(one, _step(one)) for one in {(t.due.id): t for t in tried}.values()]
    return _finish(rows, now) if rows else {}


@robust
def _finish(rows: list[tuple[Any, ...]], now: dt.datetime) -> dict[uuid.UUID, str]:
    with hot_cursor() as cursor:
        cursor.execute(_FINISH, {**arrays(_TRIED, rows), "now": now}, prepare=True)
        return dict(cursor.fetchall())


def _step(one: Tried) -> Step:
    due, failed_at = one.due, one.at + dt.timedelta(milliseconds=one.took_ms)
    return next_step(
        one.status,
        one.error,
        due.series,
        due.schedule,
        retry_after_s=one.retry_after_s,
        now=failed_at,
        permanent=one.permanent,
    )


def _tried_row(one: Tried, step: Step) -> tuple[Any, ...]:
    state = {Done: "DELIVERED", Again: "PENDING", Dead: "DEAD"}[type(step)]
    error = None if one.error is None else clean_text(one.error, _ERROR_LIMIT)
    next_at = step.at if isinstance(step, Again) else None
    return (one.due.id, one.due.number, one.at, one.status, error, one.took_ms, one.answer or None, state, next_at)


@robust
def redeliver(id: uuid.UUID | None, now: dt.datetime) -> None:
    """Begin a new series of tries of an ended callback, with the same id and body.

    Raises StateConflict while it is pending, when a newer one took its place, or when there is no callback (None),
    NotFound for an unknown id.
    """
    if id is None:
        raise StateConflict("this task has no callback")
    with hot_cursor() as cursor:
        cursor.execute(f"{_REDELIVER} AND id = %(id)s RETURNING id", {"now": now, "id": id})
        if cursor.fetchone() is None:
            _explain_refusal(cursor, id)


_REDELIVER = f"""
UPDATE callbacks_callback c SET state = 'PENDING', due_at = %(now)s, series = 0, ended_at = NULL
WHERE state IN ('DELIVERED', 'DEAD') AND NOT {_HAS_NEWER}"""  # noqa: S608 - made of constants


def _explain_refusal(cursor: psycopg.Cursor[Any], id: uuid.UUID) -> None:
    row = cursor.execute("SELECT state FROM callbacks_callback WHERE id = %s", [id]).fetchone()
    if row is None:
        raise NotFound
    if row[0] == "PENDING":
        raise StateConflict("the callback is pending; it is delivered by itself")
    raise StateConflict("a newer callback of the same task took its place; only the newest is delivered")


def redeliver_matching(
    namespace: str,
    *,
    client: str | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    state: str = "DEAD",
    limit: int = 10_000,
    now: dt.datetime,
) -> list[uuid.UUID]:
    """Begin a new series for at most `limit` ended callbacks that match, oldest first; returns their ids.

    `since` and `until` bound the time of their subject.
    """
    values = {
        "namespace": namespace, "client": client, "state": state, "limit": limit, "now": now,
        "low": floor_id(since) if since else None, "high": floor_id(until) if until else None,
    }  # fmt: skip
    with transaction.atomic(), hot_cursor() as cursor:
        cursor.execute(_REDELIVER_MATCHING, values)
        return [row[0] for row in cursor.fetchall()]


_REDELIVER_MATCHING = f"""
WITH found AS MATERIALIZED (
  SELECT id FROM callbacks_callback c
  WHERE namespace = %(namespace)s AND state = %(state)s AND NOT {_HAS_NEWER}
    AND (%(client)s::text IS NULL OR client = %(client)s::text)
    AND (%(low)s::uuid IS NULL OR id >= %(low)s::uuid) AND (%(high)s::uuid IS NULL OR id < %(high)s::uuid)
  ORDER BY id LIMIT %(limit)s FOR UPDATE
)
{_REDELIVER} AND id = ANY (ARRAY(SELECT id FROM found)) RETURNING id"""  # noqa: S608 - made of constants


_BURY = """
WITH lost AS MATERIALIZED (
  SELECT id FROM callbacks_callback
  WHERE state = 'PENDING' AND due_at <= %(now)s
    AND series > CASE schedule WHEN 'long' THEN %(long)s ELSE %(standard)s END
  ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE callbacks_callback c SET state = 'DEAD', due_at = NULL, ended_at = %(now)s,
  last_error = coalesce(c.last_error, 'no delivery came to an end')
FROM lost WHERE c.id = lost.id AND c.id = ANY (ARRAY(SELECT id FROM lost)) RETURNING c.id"""


@robust
def sweep(now: dt.datetime, limit: int = 500) -> list[uuid.UUID]:
    """Give up callbacks whose every try was begun and never reported (their deliverers died); returns their ids."""
    lengths = {name: len(steps) for name, steps in SCHEDULES.items()}
    with hot_cursor() as cursor:
        cursor.execute(_BURY, {"now": now, "limit": limit, **lengths})
        return [row[0] for row in cursor.fetchall()]


@robust
def stale(dues: Sequence[Due]) -> set[uuid.UUID]:
    """Those of the callbacks that a newer one has taken the place of since they were claimed."""
    with hot_cursor() as cursor:
        cursor.execute(_STALE, {"ids": [due.id for due in dues]}, prepare=True)
        return {row[0] for row in cursor.fetchall()}


_STALE = f"""
SELECT c.id FROM callbacks_callback c WHERE c.id = ANY(%(ids)s::uuid[]) AND {_HAS_NEWER}"""  # noqa: S608 - made of constants


@robust
def overdue(now: dt.datetime) -> int:
    """How many pending callbacks are due and untried; a number for readiness and metrics."""
    with hot_cursor() as cursor:
        cursor.execute("SELECT count(*) FROM callbacks_callback WHERE state = 'PENDING' AND due_at <= %s", [now])
        row = cursor.fetchone()
        return int(row[0]) if row else 0


@robust
def postpone(untried: Sequence[tuple[Due, dt.datetime]]) -> None:
    """Let claims go that were not tried, each with when it is due again: no step of the schedule is used up."""
    rows = [(due.id, due.number, at) for due, at in untried]
    with hot_cursor() as cursor:
        cursor.execute(_POSTPONE, arrays(_POSTPONED, rows), prepare=True)

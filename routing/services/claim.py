"""Taking due tasks for this worker: by id for a nudge, else the fair look over everybody's waiting work."""

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.db import InterfaceError, OperationalError

from common.database import hot_cursor, robust
from routing.services import lanes
from routing.trip import Claimed

_HELD = "t.worker = %(boot)s AND NOT t.waiting AND t.state IN ('RECEIVED', 'RETRY_WAIT')"
_BY_ID = """
  SELECT t.id, t.due_at FROM routing_task t
  WHERE t.id = ANY(%(ids)s::uuid[]) AND {takeable} AND t.due_at <= %(now)s
    AND t.outcome IS NULL AND t.deadline_at > %(now)s
  ORDER BY t.id LIMIT %(room)s FOR UPDATE OF t SKIP LOCKED"""
_FIRST = """t.waiting AND NOT EXISTS (
    SELECT FROM routing_task o WHERE o.waiting AND o.priority = t.priority AND o.namespace = t.namespace
      AND o.ability = t.ability AND o.client = t.client AND o.due_at < t.due_at)"""
_BY_LANE = """
  SELECT due.id, due.due_at
  FROM unnest(%(namespaces)s::text[], %(abilities)s::text[], %(clients)s::text[], %(shares)s::int[])
    AS lane(namespace, ability, client, share)
  CROSS JOIN LATERAL (
    SELECT t.id, t.due_at FROM routing_task t
    WHERE t.waiting AND t.priority = %(priority)s AND t.namespace = lane.namespace AND t.ability = lane.ability
      AND t.client = lane.client AND t.due_at <= %(now)s AND t.outcome IS NULL AND t.deadline_at > %(now)s
    ORDER BY t.due_at, t.id LIMIT lane.share FOR UPDATE SKIP LOCKED
  ) due LIMIT %(room)s"""
_TAKE = """
WITH picked AS MATERIALIZED ({picked}), taken AS (
  UPDATE routing_task t SET waiting = false, worker = %(boot)s FROM picked p WHERE t.id = p.id AND t.id = ANY (
    ARRAY(SELECT id FROM picked))
  RETURNING t.id, t.namespace, t.client, t.ability, t.correlation_id, t.trace_id, t.traceparent, t.session_id,
    t.call_path, t.priority, t.state, t.seq, t.attempts, t.max_attempts, t.strikes, t.round,
    t.idempotency_key, t.created_at, p.due_at, t.expires_at, t.deadline_at, t.timings,
    t.fallback
)
SELECT k.*, n.version, b.request, e.detail ->> 'reason'
FROM taken k JOIN registry_namespace n ON n.name = k.namespace JOIN routing_taskbody b ON b.task_id = k.id
LEFT JOIN routing_event e ON e.task_id = k.id AND e.seq = k.seq AND e.event = 'WAITING'
ORDER BY k.priority, k.due_at, k.id"""
_CLAIM_NUDGED = _TAKE.format(picked=_BY_ID.format(takeable="t.waiting"))
_CLAIM_FIRST = _TAKE.format(picked=_BY_ID.format(takeable=_FIRST))
_CLAIM_AGAIN = _TAKE.format(picked=_BY_ID.format(takeable=f"(t.waiting OR ({_HELD}))"))
_CLAIM_LANES = _TAKE.format(picked=_BY_LANE)
_CLAIM_OFFERED = _TAKE.format(
    picked="""
  SELECT due.id, due.due_at FROM unnest(%(abilities)s::text[], %(clients)s::text[]) AS lane(ability, client)
  CROSS JOIN LATERAL (
    SELECT t.id, t.due_at FROM routing_task t JOIN routing_event e ON e.task_id = t.id AND e.seq = t.seq
    WHERE t.waiting AND t.priority = %(priority)s AND t.namespace = %(namespace)s AND t.ability = lane.ability
      AND t.client = lane.client AND t.outcome IS NULL AND t.deadline_at > %(now)s
      AND e.event = 'WAITING' AND e.detail ->> 'reason' = %(offer)s
    ORDER BY t.due_at, t.id LIMIT %(share)s FOR UPDATE OF t SKIP LOCKED
  ) due LIMIT %(room)s"""
)
_ANY_DUE = "SELECT EXISTS (SELECT FROM routing_task WHERE waiting AND due_at <= %(now)s)"
_DEPTH = 32  # lanes looked at for one claim of one priority
_ROUNDS = 3  # short lanes leave room that the long ones may use

AbilityKey = tuple[str, str]  # namespace, ability


@dataclass(slots=True)
class Look:
    """What a look for due work got, and why it left some behind, if it did."""

    tasks: list[Claimed] = field(default_factory=list)
    passed_over: dict[AbilityKey, int] = field(default_factory=dict)  # no place for more; highest such priority
    is_short: bool = False  # no room for more
    has_more: bool = False  # not everything was looked at

    @property
    def has_left(self) -> bool:
        return bool(self.passed_over) or self.is_short or self.has_more


def claim(
    ids: Sequence[uuid.UUID] | None, boot_id: uuid.UUID, room: int, now: dt.datetime, *, only_first: bool = False
) -> list[Claimed]:
    """At most `room` due tasks that this worker holds from now on, of `ids` or, with None, of whatever is due.

    `only_first` leaves those behind that others of their own lane come before. Tasks past their deadline are left to
    the sweep.
    """
    if room <= 0:
        return []
    if ids is None:
        return claim_due(boot_id, room, now).tasks
    values = {"ids": list(ids), "boot": boot_id, "room": room, "now": now}
    return _claim_nudged(_CLAIM_FIRST if only_first else _CLAIM_NUDGED, values)


def claim_due(boot_id: uuid.UUID, room: int, now: dt.datetime, takes: lanes.Takes | None = None) -> Look:
    """At most `room` due tasks, and of a lane no more than it `takes`.

    High priority first, within a priority an equal share for each (namespace, ability, client), within that the longest
    due.
    """
    look = Look()
    if room > 0 and not _any_due(now):
        return look
    for priority in (0, 1, 2):
        for _ in range(_ROUNDS):
            if len(look.tasks) >= room:
                look.is_short = True
                return look
            has_more, got = _claim_round(look, priority, boot_id, room, now, takes)
            if not got:
                break
        look.has_more |= has_more
    return look


def _claim_nudged(statement: str, values: dict[str, Any]) -> list[Claimed]:
    try:
        return _take(statement, values)
    except (OperationalError, InterfaceError):
        # The commit may have happened without its answer: what is held is handed out again (dispatch refuses a double).
        return _take_again(_CLAIM_AGAIN, values)


def _claim_round(
    look: Look, priority: int, boot_id: uuid.UUID, room: int, now: dt.datetime, takes: lanes.Takes | None
) -> tuple[bool, int]:
    """One share for each lane of a priority, added to the look: whether there may be more, and how many it got."""
    left = room - len(look.tasks)
    here = Counter((task.namespace, task.ability) for task in look.tasks)
    fits = (lambda p, lane: takes(p, lane) - here[lane.namespace, lane.ability]) if takes else None
    found = lanes.due(priority, now, min(_DEPTH, left), fits)
    for lane in found.refused:
        look.passed_over.setdefault((lane.namespace, lane.ability), priority)
    if not found.lanes:
        return not found.is_all, 0
    equal = -(-left // len(found.lanes))
    shares = _shares(found.lanes, priority, equal, fits)
    got = _take_lanes(shares, priority, boot_id, left, now)
    look.tasks += got
    count = Counter(lanes.Lane(task.namespace, task.ability, task.client) for task in got)
    full = [lane for lane, share in shares.items() if count[lane] >= share]
    for lane in full:
        if shares[lane] < equal:
            look.passed_over.setdefault((lane.namespace, lane.ability), priority)
    return not found.is_all or any(shares[lane] == equal for lane in full), len(got)


def _shares(found: list[lanes.Lane], priority: int, equal: int, takes: lanes.Takes | None) -> dict[lanes.Lane, int]:
    """How many each lane is given: an equal part of the room, and of what its ability takes."""
    if takes is None:
        return dict.fromkeys(found, equal)
    of_ability = Counter((lane.namespace, lane.ability) for lane in found)
    parts = {lane: -(-takes(priority, lane) // of_ability[lane.namespace, lane.ability]) for lane in found}
    return {lane: min(equal, max(1, part)) for lane, part in parts.items()}


def claim_offered(
    namespace: str, abilities: Sequence[str], offer: str, boot_id: uuid.UUID, room: int, now: dt.datetime
) -> list[Claimed]:
    """At most `room` tasks of these abilities that wait to be fetched under this `offer`, whatever their due time; in
    the order of `claim`. Within the caller's transaction, for which `boot_id` is made."""
    claimed: list[Claimed] = []
    found = lanes.of(namespace, abilities)
    for priority in sorted({lane.priority for lane in found}):
        lanes_here = [lane for lane in found if lane.priority == priority]
        room_left = room - len(claimed)
        if room_left <= 0:
            break
        values = {
            "namespace": namespace,
            "abilities": [lane.ability for lane in lanes_here],
            "clients": [lane.client for lane in lanes_here],
            "priority": priority,
            "offer": offer,
            "share": -(-room_left // len(lanes_here)),
            "room": room_left,
            "boot": boot_id,
            "now": now,
        }
        claimed += _in_turns(_take(_CLAIM_OFFERED, values))
    return claimed


def _in_turns(tasks: list[Claimed]) -> list[Claimed]:
    """One of each client, then the second of each: whoever takes only the first few is fair."""
    seen: Counter[str] = Counter()
    turns: list[tuple[int, int, Claimed]] = []
    for task in tasks:
        seen[task.client] += 1
        turns.append((seen[task.client], len(turns), task))
    return [task for _, _, task in sorted(turns, key=lambda turn: turn[:2])]


def _take_lanes(
    shares: dict[lanes.Lane, int], priority: int, boot_id: uuid.UUID, room: int, now: dt.datetime
) -> list[Claimed]:
    values = {
        "namespaces": [lane.namespace for lane in shares],
        "abilities": [lane.ability for lane in shares],
        "clients": [lane.client for lane in shares],
        "shares": list(shares.values()),
        "priority": priority,
        "room": room,
        "boot": boot_id,
        "now": now,
    }
    return _take(_CLAIM_LANES, values)


def _take(statement: str, values: dict[str, Any]) -> list[Claimed]:
    with hot_cursor() as cursor:
        cursor.execute(statement, values, prepare=True)
        return [_claimed(row) for row in cursor.fetchall()]


_take_again = robust(_take)


@robust
def _any_due(now: dt.datetime) -> bool:
    with hot_cursor() as cursor:
        row = cursor.execute(_ANY_DUE, {"now": now}, prepare=True).fetchone()
        return bool(row and row[0])


def _claimed(row: tuple[Any, ...]) -> Claimed:
    (
        task_id, namespace, client, ability, correlation_id, trace_id, traceparent, session_id, call_path, priority,
        state, seq, attempts, max_attempts, strikes, round_, idempotency_key, created_at, due_at, expires_at,
        deadline_at, timings, fallback, version, request, waited_for,
    ) = row  # fmt: skip
    return Claimed(
        task_id, namespace, version, client, ability, correlation_id, trace_id, traceparent, session_id,
        msgspec.json.decode(call_path), priority, state, seq, attempts, max_attempts, strikes, round_,
        idempotency_key, created_at, due_at, expires_at, deadline_at, msgspec.json.decode(timings), waited_for,
        bytes(request), msgspec.json.decode(fallback) if fallback else None,
    )  # fmt: skip

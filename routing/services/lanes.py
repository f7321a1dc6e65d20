"""Whose turn it is: lanes of waiting work, (namespace, ability, client), visited in rotation.

A loose scan over the index `task_lanes` jumps from lane to lane, so that a lane of a million rows costs as much as one
of a single row (docs/decisions/0001-tables.md).
"""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from common.database import hot_cursor, robust

_STEP = """
  SELECT t.namespace, t.ability, t.client, t.due_at FROM routing_task t
  WHERE t.waiting AND t.priority = %(priority)s AND (t.namespace, t.ability, t.client) > ({after})
  ORDER BY t.priority, t.namespace, t.ability, t.client, t.due_at LIMIT 1"""
_SCAN = f"""
WITH RECURSIVE lane AS (
  (SELECT s.*, 1 AS step FROM ({_STEP.format(after="%(namespace)s, %(ability)s, %(client)s")}) s)
  UNION ALL
  SELECT s.*, lane.step + 1 FROM lane
  CROSS JOIN LATERAL ({_STEP.format(after="lane.namespace, lane.ability, lane.client")}) s
  WHERE lane.step < %(steps)s
)
SELECT namespace, ability, client, due_at <= %(now)s FROM lane"""  # noqa: S608 - made of constants
_NEXT = """
  CROSS JOIN LATERAL (SELECT t.client FROM routing_task t WHERE t.waiting AND t.priority = l.priority
    AND t.namespace = %(namespace)s AND t.ability = l.ability AND t.client > l.client
    ORDER BY t.priority, t.namespace, t.ability, t.client LIMIT 1) n"""
_OF_ABILITIES = f"""
WITH RECURSIVE lane AS (
  SELECT l.priority, l.ability, n.client FROM (SELECT p.priority, a.ability, '' AS client
    FROM unnest(ARRAY[0, 1, 2]) AS p(priority), unnest(%(abilities)s::text[]) AS a(ability)) l {_NEXT}
  UNION ALL
  SELECT l.priority, l.ability, n.client FROM lane l {_NEXT}
)
SELECT priority, ability, client FROM lane"""  # noqa: S608 - made of constants
_STEPS = 128  # lanes passed in one statement, those that are not due yet included
_SCANS = 24  # statements at most for one look


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    namespace: str
    ability: str
    client: str


@dataclass(frozen=True, slots=True)
class Line:
    """Waiting work of one priority, ability and client."""

    priority: int
    ability: str
    client: str


Takes = Callable[[int, Lane], int]  # priority and lane: how many of its tasks may be claimed now


@dataclass(slots=True)
class Due:
    """Lanes with due work; those of which nothing may be claimed now; whether all there are were looked at."""

    lanes: list[Lane] = field(default_factory=list)
    refused: list[Lane] = field(default_factory=list)
    is_all: bool = False


_START = Lane("", "", "")
_turns: dict[int, Lane] = {}  # by priority: the lane that was served last in this process


def due(priority: int, now: dt.datetime, depth: int, takes: Takes | None = None) -> Due:
    """At most `depth` lanes of this priority with due work, beginning after the one that was served last here, and once
    round: however many lanes there are that are not due or may not be claimed of, the others are found."""
    start = _turns.get(priority, _START)
    found, last = Due(), start
    for lane, is_due in _round(priority, now, start):
        if lane is None:
            found.is_all = True
            break
        if is_due and takes and takes(priority, lane) <= 0:
            found.refused.append(lane)
        elif is_due and len(found.lanes) == depth:
            break
        elif is_due:
            found.lanes.append(lane)
        last = lane
    _turns[priority] = found.lanes[-1] if found.lanes and found.is_all else last
    return found


def _round(priority: int, now: dt.datetime, start: Lane) -> Iterator[tuple[Lane | None, bool]]:
    """The lanes after `start`, then those up to it, and whether they are due; None after the last one. Ends without it
    where there are too many for one look."""
    after, has_wrapped = start, start == _START
    for _ in range(_SCANS):
        seen = _scan(priority, now, after)
        for lane, is_due in seen:
            if has_wrapped and lane > start != _START:
                break
            yield lane, is_due
        else:
            if len(seen) == _STEPS:
                after = seen[-1][0]
                continue
            if not has_wrapped:
                after, has_wrapped = _START, True
                continue
        yield None, False
        return


@robust
def _scan(priority: int, now: dt.datetime, after: Lane) -> list[tuple[Lane, bool]]:
    """The next lanes after this one, and whether they are due."""
    values = {
        "priority": priority, "now": now, "steps": _STEPS,
        "namespace": after.namespace, "ability": after.ability, "client": after.client,
    }  # fmt: skip
    with hot_cursor() as cursor:
        rows = cursor.execute(_SCAN, values, prepare=True).fetchall()
    return [(Lane(*row[:3]), row[3]) for row in rows]


def of(namespace: str, abilities: Sequence[str]) -> list[Line]:
    """Whoever has waiting work for these abilities, due or not."""
    with hot_cursor() as cursor:
        rows = cursor.execute(_OF_ABILITIES, {"namespace": namespace, "abilities": list(abilities)}).fetchall()
    return [Line(*row) for row in rows]

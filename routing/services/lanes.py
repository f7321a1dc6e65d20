"""Whose turn it is: lanes of waiting work, (namespace, ability, client), visited in rotation.

A loose scan over the index `task_lanes` jumps from lane to lane, so that a lane of a million rows costs as much as one
of a single row (docs/decisions/0001-tables.md).
"""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
_STEPS = 128  # lanes passed at most in one look, those that are not due yet included


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


Refuses = Callable[[int, str, str, str], bool]  # priority, namespace, ability, client

_START = Lane("", "", "")
_turns: dict[int, Lane] = {}  # by priority: the lane that was served last in this process


def due(priority: int, now: dt.datetime, depth: int, refuses: Refuses | None = None) -> list[Lane]:
    """At most `depth` lanes of this priority with due work, beginning after the one that was served last here."""
    start = _turns.get(priority, _START)
    found, last = _look(priority, now, start, refuses)
    if len(found) < depth and start != _START:
        more, _ = _look(priority, now, _START, refuses)
        found += [lane for lane in more if lane <= start and lane not in found]
    found = found[:depth]
    _turns[priority] = found[-1] if found else last
    return found


@robust
def _look(priority: int, now: dt.datetime, after: Lane, refuses: Refuses | None) -> tuple[list[Lane], Lane]:
    """The due lanes after `after`, and the last one looked at (the start when the end was reached)."""
    values = {
        "priority": priority, "now": now, "steps": _STEPS,
        "namespace": after.namespace, "ability": after.ability, "client": after.client,
    }  # fmt: skip
    with hot_cursor() as cursor:
        rows = cursor.execute(_SCAN, values, prepare=True).fetchall()
    found = [Lane(*row[:3]) for row in rows if row[3] and not (refuses and refuses(priority, *row[:3]))]
    return found, Lane(*rows[-1][:3]) if len(rows) == _STEPS else _START


def of(namespace: str, abilities: Sequence[str]) -> list[Line]:
    """Whoever has waiting work for these abilities, due or not."""
    with hot_cursor() as cursor:
        rows = cursor.execute(_OF_ABILITIES, {"namespace": namespace, "abilities": list(abilities)}).fetchall()
    return [Line(*row) for row in rows]

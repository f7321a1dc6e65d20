"""Where a route's traffic goes: each candidate's set share beside what it had of the last hour's attempts."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from common.ids import floor_id
from routing import route_tables
from routing.models import Candidate, Route
from routing.shares import shares

WINDOW = dt.timedelta(hours=1)
OLDEST_TASK = dt.timedelta(days=1)  # how long before its attempt a task may have been accepted
MOST = 10_000  # tasks that are looked at, the newest; more only lengthen the wait for much the same shares

# A candidate without a version or capability takes every one: the most particular candidate counts.
_SQL = """
WITH newest AS (
    SELECT id FROM routing_task WHERE namespace = %(namespace)s AND ability = %(ability)s AND id >= %(low)s
    ORDER BY id DESC LIMIT %(most)s
), calls AS (
    SELECT a.agent_id, a.instance_id, a.capability, a.outcome,
           1000 * extract(epoch FROM a.ended_at - a.sent_at) AS ms
    FROM newest n JOIN routing_attempt a ON a.task_id = n.id AND a.task_id >= %(low)s WHERE a.sent_at >= %(start)s
), kinds AS (
    SELECT DISTINCT agent_id, instance_id, capability FROM calls
), named AS (
    SELECT k.*, c.position FROM kinds k
    LEFT JOIN registry_agent g ON g.namespace = %(namespace)s AND g.agent_id = k.agent_id
    LEFT JOIN registry_instance i ON i.agent_id = g.id AND i.instance_id = k.instance_id
    LEFT JOIN LATERAL (
        SELECT position FROM routing_candidate WHERE route_id = %(route)s AND agent_id = k.agent_id
          AND capability IN ('', k.capability) AND version IN ('', coalesce(nullif(i.version, ''), g.version))
        ORDER BY version DESC, capability DESC, position LIMIT 1
    ) c ON true
)
SELECT position, count(*), count(*) FILTER (WHERE outcome = 'SUCCEEDED'),
       count(*) FILTER (WHERE outcome IN ('FAILED', 'TIMEOUT', 'LOST')),
       percentile_disc(0.95) WITHIN GROUP (ORDER BY ms) FILTER (WHERE outcome = 'SUCCEEDED'),
       (SELECT count(*) FROM newest) = %(most)s
FROM calls JOIN named USING (agent_id, instance_id, capability) GROUP BY position"""


@dataclass(frozen=True, slots=True)
class Calls:
    """What became of a candidate's attempts; `p95_ms` of those that succeeded."""

    count: int = 0
    succeeded: int = 0
    failed: int = 0
    p95_ms: float | None = None

    @property
    def success(self) -> float | None:
        ended = self.succeeded + self.failed
        return self.succeeded / ended if ended else None


@dataclass(frozen=True, slots=True)
class Line:
    """A candidate: `share` as its weight sets it (None where the strategy decides), `present` of the attempts (None
    without any), both 0 to 1."""

    place: int
    candidate: Candidate
    share: float | None
    present: float | None
    calls: Calls

    @property
    def name(self) -> str:
        """What tells it from the route's other candidates."""
        return route_tables.name_of(route_tables.written_candidate(self.candidate))


@dataclass(frozen=True, slots=True)
class Traffic:
    """The candidates in order; `elsewhere` = attempts of agents that are none: substitutes, or removed meanwhile.
    `sampled` = there were more tasks than are looked at."""

    lines: list[Line]
    calls: int
    elsewhere: int
    sampled: bool


def of_route(route: Route, candidates: Sequence[Candidate], now: dt.datetime) -> Traffic:
    """One query of bounded cost."""
    start = now - WINDOW
    values: dict[str, Any] = {
        "namespace": route.namespace_id, "ability": route.ability, "route": route.pk, "start": start, "most": MOST,
        "low": floor_id(start - OLDEST_TASK),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_SQL, values)
        rows = cursor.fetchall()
    found = {row[0]: Calls(row[1], row[2], row[3], None if row[4] is None else float(row[4])) for row in rows}
    whole, set_shares = sum(one.count for one in found.values()), shares([one.weight for one in candidates])
    lines = [
        Line(place, row, set_shares[place], calls.count / whole if whole else None, calls)
        for place, row in enumerate(candidates)
        for calls in [found.get(row.position, Calls())]
    ]
    elsewhere = found.get(None, Calls()).count
    return Traffic(lines, whole, elsewhere, any(row[5] for row in rows))

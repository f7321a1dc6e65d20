"""How well tasks are delivered, received, run and completed, and how long they queue: in all, over time, and by key."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from common.ids import floor_id
from insight import newest
from insight.access import Viewer
from insight.filters import SPANS, Filter

MOST = 10_000  # tasks that are looked at, the newest; more only lengthen the wait for much the same figures
KEYS = {"ability": ("ability", "n.ability"), "agent": ("agent_id", "a.agent_id"), "client": ("client", "n.client")}
STEPS = {"1h": dt.timedelta(minutes=1), "24h": dt.timedelta(minutes=30), "7d": dt.timedelta(hours=2)}
ROWS = 50
_NEWEST = """
  SELECT t.id, t.ability, t.agent_id, t.client, t.state, t.outcome, t.created_at, t.ended_at, t.not_before
  FROM ({ids}) found JOIN routing_task t ON t.id = found.id
"""

_TASKS = """
WITH newest AS ({newest}), seen AS (
  SELECT n.{key} AS key, n.outcome, a.sent_at,
    floor(extract(epoch FROM n.created_at - %(start)s) / %(step)s)::int AS bucket,
    1000 * extract(epoch FROM coalesce(a.sent_at, n.ended_at, %(now)s) - greatest(n.created_at, n.not_before)) AS queued
  FROM newest n LEFT JOIN routing_attempt a ON a.task_id = n.id AND a.number = 1 AND a.task_id >= %(low)s
)
SELECT grouping(key, bucket), key, bucket, count(*), count(*) FILTER (WHERE outcome = 'SUCCEEDED'),
  count(*) FILTER (WHERE outcome IN ('FAILED', 'TIMEOUT')), count(*) FILTER (WHERE outcome IS NULL AND sent_at IS NULL),
  percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY queued) FILTER (WHERE sent_at IS NOT NULL),
  max(queued) FILTER (WHERE outcome IS NULL AND sent_at IS NULL)
FROM seen GROUP BY GROUPING SETS ((key), (bucket), ())"""

_CALLS = """
WITH newest AS ({newest}), calls AS (
  SELECT {key} AS key, floor(extract(epoch FROM n.created_at - %(start)s) / %(step)s)::int AS bucket, a.outcome,
    a.received_at IS NOT NULL OR a.outcome = 'SUCCEEDED' AS got,
    1000 * extract(epoch FROM a.received_at - a.sent_at) AS receipt,
    1000 * extract(epoch FROM a.ended_at - a.received_at) AS run
  FROM newest n JOIN routing_attempt a ON a.task_id = n.id AND a.task_id >= %(low)s {own}
)
SELECT grouping(key, bucket), key, bucket, count(*) FILTER (WHERE got OR outcome IS NOT NULL),
  count(*) FILTER (WHERE got), percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY receipt),
  percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY run) FILTER (WHERE outcome = 'SUCCEEDED')
FROM calls GROUP BY GROUPING SETS ((key), (bucket), ())"""
_BY_KEY, _BY_BUCKET = 1, 2  # what grouping(key, bucket) says of a row; 3 is all of them


@dataclass(slots=True)
class Figures:
    """Counts, and (half under, 95 % under) in ms; None where nothing was measured."""

    tasks: int = 0
    succeeded: int = 0
    failed: int = 0
    waiting: int = 0
    calls: int = 0
    got: int = 0
    queued: tuple[float | None, float | None] = (None, None)
    receipt: tuple[float | None, float | None] = (None, None)
    run: tuple[float | None, float | None] = (None, None)
    longest: float | None = None  # wait of those that nobody was called for yet

    @property
    def delivery(self) -> float | None:
        """Share of the calls that the agent received."""
        return self.got / self.calls if self.calls else None

    @property
    def completion(self) -> float | None:
        """Share of success among what ended by itself."""
        ended = self.succeeded + self.failed
        return self.succeeded / ended if ended else None


@dataclass(slots=True)
class Dashboard:
    """Figures of the tasks accepted since `start`: in all, by key (most first) and for each `step` of time."""

    start: dt.datetime
    step: dt.timedelta
    total: Figures = field(default_factory=Figures)
    by_key: dict[str | None, Figures] = field(default_factory=dict)
    by_bucket: dict[int, Figures] = field(default_factory=dict)
    sampled: bool = False  # there were more than MOST: the figures are of the newest

    def rows(self) -> list[tuple[str | None, Figures]]:
        """The keys with the most tasks first."""
        return sorted(self.by_key.items(), key=lambda row: (-row[1].tasks, -row[1].calls, row[0] or ""))[:ROWS]

    def series(self) -> list[tuple[dt.datetime, Figures]]:
        """Every step of the time, also those without a task."""
        last = max(self.by_bucket, default=-1)
        first = min(self.by_bucket, default=0) if self.sampled else 0
        return [(self.start + n * self.step, self.by_bucket.get(n, Figures())) for n in range(first, last + 1)]


def load(viewer: Viewer, by: str, within: str, namespace: str, now: dt.datetime) -> Dashboard:
    """The figures that the person may see; two queries, each of bounded cost."""
    step = STEPS[within]
    found = Dashboard(now - SPANS[within], step)
    ids, given = newest.statement(viewer, Filter(namespace=namespace, within=within), now, MOST)
    values = {**given, "start": found.start, "step": step.total_seconds(), "now": now, "low": floor_id(found.start)}
    rows = _NEWEST.format(ids=ids)
    column, key = KEYS[by]
    own = "AND a.agent_id = n.agent_id" if viewer.agents is not None else ""
    with connection.cursor() as cursor:
        cursor.execute(_TASKS.format(newest=rows, key=column), values)
        for row in cursor.fetchall():
            _add_tasks(_of(found, *row[:3]), *row[3:])
        cursor.execute(_CALLS.format(newest=rows, key=key, own=own), values)
        for row in cursor.fetchall():
            _add_calls(_of(found, *row[:3]), *row[3:])
    found.sampled = found.total.tasks >= MOST
    return found


def _of(found: Dashboard, kind: int, key: str | None, bucket: int | None) -> Figures:
    if kind == _BY_KEY:
        return found.by_key.setdefault(key, Figures())
    return found.by_bucket.setdefault(bucket or 0, Figures()) if kind == _BY_BUCKET else found.total


def _add_tasks(to: Figures, tasks: int, succeeded: int, failed: int, waiting: int, queued: Any, longest: Any) -> None:
    to.tasks, to.succeeded, to.failed, to.waiting, to.queued = tasks, succeeded, failed, waiting, _pair(queued)
    to.longest = None if longest is None else max(0.0, float(longest))


def _add_calls(to: Figures, calls: int, got: int, receipt: Any, run: Any) -> None:
    to.calls, to.got, to.receipt, to.run = calls, got, _pair(receipt), _pair(run)


def _pair(given: Any) -> tuple[float | None, float | None]:
    """Clocks of two machines may differ: what would be negative is 0."""
    half, most = given or (None, None)
    return (None if half is None else max(0.0, float(half))), (None if most is None else max(0.0, float(most)))

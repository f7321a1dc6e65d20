"""Prometheus series, counted in the database, so that every process of every machine says the same.

Label values are names that somebody registered; what else a task may hold counts under "other".
"""

import datetime as dt
import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import connection
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from common.clock import now
from common.ids import floor_id
from routing import breaker

KEPT_S = 5.0  # scrapes of several servers share one look
WINDOW = dt.timedelta(hours=1)

_QUERIES: dict[str, str] = {
    "ended": """
        SELECT t.namespace, coalesce(r.name, 'other'), coalesce(g.agent_id, ''), t.state, count(*),
               sum(extract(epoch FROM t.ended_at - t.created_at))
        FROM routing_task t
        LEFT JOIN (SELECT namespace, ability AS name FROM routing_route
                   UNION SELECT a.namespace, c.name
                   FROM registry_capability c JOIN registry_agent a ON a.id = c.agent_id) r
               ON r.namespace = t.namespace AND r.name = t.ability
        LEFT JOIN registry_agent g ON g.namespace = t.namespace AND g.agent_id = t.agent_id
        WHERE t.id >= %(since)s AND t.outcome IS NOT NULL GROUP BY 1, 2, 3, 4""",
    "open": "SELECT namespace, state, count(*) FROM routing_task WHERE outcome IS NULL GROUP BY 1, 2",
    "queue": """
        SELECT count(*), coalesce(extract(epoch FROM now() - min(due_at)), 0) FROM routing_task
        WHERE waiting AND due_at <= now()""",
    "callbacks": """
        SELECT namespace, state, count(*) FROM callbacks_callback
        WHERE id >= %(since)s OR state = 'PENDING' GROUP BY 1, 2""",
    "dead": "SELECT namespace, count(*) FROM callbacks_callback WHERE state = 'DEAD' GROUP BY 1",
    "workers": "SELECT count(*), coalesce(sum(inflight), 0) FROM routing_worker WHERE expires_at > now()",
    "instances": """
        SELECT a.namespace, a.agent_id, i.state, count(*) FROM registry_instance i
        JOIN registry_agent a ON a.id = i.agent_id WHERE a.deleted_at IS NULL GROUP BY 1, 2, 3""",
}  # fmt: skip

_Rows = dict[str, list[tuple[Any, ...]]]


def exposition() -> bytes:
    """The text of /metrics."""
    registry = CollectorRegistry()
    registry.register(_DatabaseCollector())
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


class _Kept:
    """What was counted last, and until when that is good enough."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._good_until = float("-inf")
        self._rows: _Rows = {}

    def rows(self) -> _Rows:
        with self._lock:
            started = time.monotonic()
            if started > self._good_until:
                self._rows = _ask()
                ended = time.monotonic()
                # however large the tables are, counting them takes at most a twentieth of one connection's time
                self._good_until = ended + max(KEPT_S, 20 * (ended - started))
            return self._rows


_KEPT = _Kept()


def _ask() -> _Rows:
    since = {"since": floor_id(now() - WINDOW)}
    found = {}
    with connection.cursor() as cursor:
        for name, sql in _QUERIES.items():
            cursor.execute(sql, since)
            found[name] = cursor.fetchall()
    return {**found, "breakers": breaker.view().counted_open()}


class _DatabaseCollector:
    def collect(self) -> Iterator[Metric]:
        rows = _KEPT.rows()
        yield from _tasks(rows)
        yield from _around(rows)


def _tasks(rows: _Rows) -> Iterator[Metric]:
    by = ["namespace", "ability", "agent", "state"]
    yield _gauge(
        "tasks_ended_last_hour", "Tasks accepted in the last hour that ended.", by, (r[:5] for r in rows["ended"])
    )
    yield _gauge(
        "tasks_ended_last_hour_seconds",
        "Sum of the time from acceptance to the end of those tasks.",
        by,
        ((*r[:4], r[5]) for r in rows["ended"]),
    )
    yield _gauge("tasks_open", "Tasks that have not ended.", ["namespace", "state"], rows["open"])
    due, age = rows["queue"][0]
    yield _gauge("queue_due", "Tasks that are due and nobody holds.", [], [(due,)])
    yield _gauge("queue_age_seconds", "How long the oldest of them has been due.", [], [(age,)])


def _around(rows: _Rows) -> Iterator[Metric]:
    yield _gauge(
        "callbacks", "Callbacks of the last hour and all pending ones.", ["namespace", "state"], rows["callbacks"]
    )
    yield _gauge("callbacks_dead", "Callbacks given up and not yet redelivered.", ["namespace"], rows["dead"])
    workers, inflight = rows["workers"][0]
    yield _gauge("workers", "Worker processes with a living lease.", [], [(workers,)])
    yield _gauge("worker_inflight", "Attempts that workers hold now.", [], [(inflight,)])
    yield _gauge("breakers_open", "Breakers that are open or half open.", ["namespace", "agent"], rows["breakers"])
    yield _gauge("instances", "Registered instances.", ["namespace", "agent", "state"], rows["instances"])


def _gauge(name: str, meaning: str, labels: list[str], rows: Iterable[tuple[Any, ...]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"agent_reach_{name}", meaning, labels=labels)
    for *values, number in rows:
        family.add_metric([str(value) for value in values], float(number or 0))
    return family

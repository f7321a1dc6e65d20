"""How an agent is used: calls, how they ended, how long they took, why they failed, and for whom, from the attempts."""

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Count

from common.clock import rfc3339
from common.ids import floor_id
from registry.models import Agent, Instance
from registry.states import ROUTABLE, InstanceState

MOST = 20_000  # attempts that are looked at, the newest; more only lengthen the wait for much the same figures
NAMED = 20
OLDEST_TASK = dt.timedelta(days=1)  # how long before its attempt a task may have been accepted

# Ids are in the order of acceptance, so the newest are read backwards from the index and never more than MOST.
_SQL = """
WITH newest AS (
    SELECT a.task_id, a.outcome, a.code, a.sent_at, a.ended_at FROM routing_attempt a
    WHERE a.namespace = %(namespace)s AND a.agent_id = %(agent)s AND a.task_id >= %(low)s
    ORDER BY a.task_id DESC, a.number DESC LIMIT %(most)s
), calls AS (
    SELECT n.*, n.outcome = 'SUCCEEDED' AS good, n.outcome IN ('FAILED', 'TIMEOUT', 'LOST') AS bad,
           1000 * extract(epoch FROM n.ended_at - n.sent_at) AS ms
    FROM newest n WHERE n.sent_at >= %(start)s AND n.sent_at < %(end)s
), figures AS (
    SELECT count(*) AS calls, count(*) FILTER (WHERE good) AS succeeded, count(*) FILTER (WHERE bad) AS failed,
           count(*) FILTER (WHERE ended_at IS NULL) AS open, avg(ms) FILTER (WHERE good) AS mean,
           percentile_disc(0.95) WITHIN GROUP (ORDER BY ms) FILTER (WHERE good) AS p95, min(sent_at) AS first
    FROM calls
), reasons AS (
    SELECT coalesce(code, outcome) AS key, count(*) AS n FROM calls WHERE bad GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20
), callers AS (
    SELECT t.client AS key, count(*) AS n, count(*) FILTER (WHERE c.good) AS good
    FROM calls c JOIN routing_task t ON t.id = c.task_id AND t.id >= %(low)s GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20
)
SELECT f.*, (SELECT count(*) FROM newest) = %(most)s,
       (SELECT jsonb_agg(jsonb_build_object('code', key, 'count', n)) FROM reasons),
       (SELECT jsonb_agg(jsonb_build_object('client', key, 'count', n, 'succeeded', good)) FROM callers)
FROM figures f"""


@dataclass(frozen=True, slots=True)
class Stats:
    """An agent's calls in a window. Shares and latencies are None without calls; `sampled` = there were more calls
    than are counted, so all figures are of the time since `start`."""

    start: dt.datetime
    end: dt.datetime
    states: dict[str, int]
    calls: int
    succeeded: int
    failed: int
    open: int
    mean_ms: float | None
    p95_ms: float | None
    sampled: bool
    reasons: list[dict[str, Any]]
    callers: list[dict[str, Any]]

    @property
    def alive(self) -> int:
        """Instances that are there, whatever else is wrong with them."""
        return sum(count for state, count in self.states.items() if state != InstanceState.OFFLINE)

    @property
    def success(self) -> float | None:
        ended = self.succeeded + self.failed
        return self.succeeded / ended if ended else None

    @property
    def qps(self) -> float:
        return self.calls / max((self.end - self.start).total_seconds(), 1.0)


def of_agent(agent: Agent, window: dt.timedelta, now: dt.datetime) -> Stats:
    """The agent's calls that were sent in the `window` before `now`; two queries, each of bounded cost."""
    start = now - window
    present = Instance.objects.filter(agent=agent, left_at=None).order_by()
    states = dict(present.values_list("state").annotate(Count("pk")))
    values: dict[str, Any] = {
        "namespace": agent.namespace_id, "agent": agent.agent_id, "start": start, "end": now, "most": MOST,
        "low": floor_id(start - OLDEST_TASK),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_SQL, values)
        calls, succeeded, failed, running, mean, p95, first, sampled, reasons, callers = cursor.fetchone()
    return Stats(
        start=max(start, first) if sampled and first else start, end=now, states=states, calls=calls,
        succeeded=succeeded, failed=failed, open=running, mean_ms=_ms(mean), p95_ms=_ms(p95),
        sampled=bool(sampled and first and first > start), reasons=_list(reasons), callers=_list(callers),
    )  # fmt: skip


def document(agent_id: str, stats: Stats, client: str | None) -> dict[str, Any]:
    """The API's answer; a client is told of no other one's calls."""
    callers = stats.callers if client is None else [one for one in stats.callers if one["client"] == client]
    return {
        "agentId": agent_id,
        "from": rfc3339(stats.start),
        "to": rfc3339(stats.end),
        "windowMs": (stats.end - stats.start) // dt.timedelta(milliseconds=1),
        "alive": stats.alive > 0,
        "instances": {state: stats.states.get(state, 0) for state in InstanceState.values},
        "takingWork": sum(stats.states.get(state, 0) for state in ROUTABLE),
        "calls": stats.calls,
        "succeeded": stats.succeeded,
        "failed": stats.failed,
        "inflight": stats.open,
        "qps": round(stats.qps, 4),
        "success": None if stats.success is None else round(stats.success, 4),
        "meanLatencyMs": stats.mean_ms,
        "p95LatencyMs": stats.p95_ms,
        "failures": stats.reasons,
        "callers": callers,
        "sampled": stats.sampled,
    }


def _ms(value: Any) -> float | None:
    return None if value is None else round(float(value), 1)


def _list(value: Any) -> list[dict[str, Any]]:
    return json.loads(value) if isinstance(value, str) else value or []

"""What is usual for an agent's capability: its newest attempts, their times, and the limits that follow from them.

recommendedTimeoutMs = 2 × P95 + 1 s, recommendedSlaMs = 1.5 × P95 (requirement R7.4).
"""

import datetime as dt
from typing import Any

from django.db import connection

from common.ids import floor_id

DAYS = dt.timedelta(days=7)
MOST = 20_000  # attempts of one agent that are looked at, the newest

_SQL = """
WITH agents AS (
  SELECT agent_id FROM registry_agent WHERE namespace = %(namespace)s AND deleted_at IS NULL
    AND (%(agent)s::text IS NULL OR agent_id = %(agent)s)
), newest AS (
  SELECT a.* FROM agents g CROSS JOIN LATERAL (
    SELECT agent_id, capability, number, outcome, code, 1000 * extract(epoch FROM ended_at - sent_at) AS ms
    FROM routing_attempt WHERE namespace = %(namespace)s AND agent_id = g.agent_id AND task_id >= %(low)s
    ORDER BY task_id DESC, number DESC LIMIT %(most)s
  ) a WHERE a.outcome IN ('SUCCEEDED', 'FAILED', 'TIMEOUT', 'LOST')
)
SELECT agent_id, capability, count(*),
  percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms) FILTER (WHERE outcome = 'SUCCEEDED'),
  avg(ms) FILTER (WHERE outcome = 'SUCCEEDED'),
  count(*) FILTER (WHERE outcome = 'TIMEOUT' OR code = 'TIMEOUT'), count(*) FILTER (WHERE number > 1)
FROM newest GROUP BY 1, 2 ORDER BY 1, 2"""


def baselines(namespace: str, agent_id: str | None, now: dt.datetime) -> list[dict[str, Any]]:
    """A row for each capability that was called in the last seven days; times are null while none succeeded."""
    values = {"namespace": namespace, "agent": agent_id, "low": floor_id(now - DAYS), "most": MOST}
    with connection.cursor() as cursor:
        cursor.execute(_SQL, values)
        return [_row(*row) for row in cursor.fetchall()]


def _row(
    agent_id: str, capability: str, count: int, percentiles: list[Any] | None, mean: Any, timeouts: int, retries: int
) -> dict[str, Any]:
    p50, p95, p99 = (round(float(one)) for one in percentiles) if percentiles else (None, None, None)
    return {
        "agentId": agent_id,
        "capability": capability,
        "count": count,
        "p50Ms": p50,
        "p95Ms": p95,
        "p99Ms": p99,
        "meanMs": None if mean is None else round(float(mean)),
        "timeoutRate": round(timeouts / count, 4),
        "retryRate": round(retries / count, 4),
        "recommendedTimeoutMs": None if p95 is None else 2 * p95 + 1000,
        "recommendedSlaMs": None if p95 is None else round(1.5 * p95),
    }

"""How much was asked for, how it ended and what it cost, summed from the tasks themselves."""

import datetime as dt
from typing import Any

from django.db import connection

from common.ids import floor_id

KEYS = {
    "client": "t.client",
    "agent": "t.agent_id",
    "ability": "t.ability",
    "strategy": "a.decision ->> 'strategy'",
}
# The cost is the last member of the kept result, so it is read without parsing answers of any size and content.
_SQL = """
WITH chosen AS (
    SELECT {key} AS key, t.state, c.cost
    FROM routing_task t
    {strategy}
    LEFT JOIN routing_taskbody b ON b.task_id = t.id AND b.task_id >= %(low)s AND b.task_id < %(high)s
    CROSS JOIN LATERAL (SELECT substring(
        convert_from(substring(b.result FROM greatest(length(b.result) - 300, 1)), 'LATIN1')
        FROM '"cost": ?(\\{{[^{{}}]*\\}})\\}}$')::jsonb AS cost) c
    WHERE t.namespace = %(namespace)s AND t.id >= %(low)s AND t.id < %(high)s {client}
)
SELECT key, cost ->> 'currency' AS currency, count(*), count(*) FILTER (WHERE state = 'SUCCEEDED'),
       count(*) FILTER (WHERE state IN ('FAILED', 'TIMEOUT')), sum((cost ->> 'amount')::numeric)
FROM chosen GROUP BY 1, 2 ORDER BY 3 DESC, 1
"""
_STRATEGY = """LEFT JOIN routing_attempt a ON a.task_id = t.id AND a.number = t.attempts
    AND a.task_id >= %(low)s AND a.task_id < %(high)s"""


def usage(by: str, namespace: str, start: dt.datetime, end: dt.datetime, client: str | None = None) -> dict[str, Any]:
    """Rows {key, count, succeeded, failed, cost} of the tasks accepted from `start` up to `end`, most first.

    `by` is client, agent, ability or strategy; `client` limits to one client's tasks. A key that was charged in several
    currencies has one cost for each in `costs`, and `cost` is the largest part; sums of unlike money are not made.
    """
    sql = _SQL.format(
        key=KEYS[by],
        strategy=_STRATEGY if by == "strategy" else "",
        client="AND t.client = %(client)s" if client else "",
    )
    bounds: dict[str, Any] = {"low": floor_id(start), "high": floor_id(end), "namespace": namespace, "client": client}
    with connection.cursor() as cursor:
        cursor.execute(sql, bounds)
        rows = cursor.fetchall()
    return {"items": _fold(rows), "nextCursor": None}


def _fold(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    items: dict[str | None, dict[str, Any]] = {}
    for key, currency, count, succeeded, failed, amount in rows:
        item = items.setdefault(key, {"key": key, "count": 0, "succeeded": 0, "failed": 0, "costs": []})
        item["count"] += count
        item["succeeded"] += succeeded
        item["failed"] += failed
        if amount is not None:
            item["costs"].append({"amount": amount, "currency": currency})
    for item in items.values():
        costs = sorted(item.pop("costs"), key=lambda cost: -cost["amount"])
        item["cost"] = costs[0] if costs else None
        if len(costs) > 1:
            item["costs"] = costs
    return sorted(items.values(), key=lambda item: -item["count"])

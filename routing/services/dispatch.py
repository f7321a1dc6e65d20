"""The last word before anything is sent: the attempt is on record, and the task was still ours."""

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from common.json import dumps
from routing.services.batches import in_halves
from routing.services.node import here
from routing.trip import Dispatch

_MILLISECOND = dt.timedelta(milliseconds=1)
_COLUMNS = {
    "id": "uuid", "number": "int", "key": "uuid", "namespace": "text", "agent_id": "text", "instance_id": "text",
    "capability": "text", "channel": "text", "decision": "text", "deadline_at": "timestamptz",
    "routed_at": "timestamptz", "sent_at": "timestamptz", "timings": "text", "detail": "text",
}  # fmt: skip
_DISPATCH = f"""
WITH given AS (SELECT * FROM {unnest(_COLUMNS)}), locked AS MATERIALIZED (
  SELECT t.id, t.state FROM routing_task t
  WHERE t.id = ANY(%(id)s::uuid[]) AND t.worker = %(boot)s AND NOT t.waiting AND t.outcome IS NULL
  ORDER BY t.id FOR UPDATE
), sent AS (
  UPDATE routing_task t SET state = 'DISPATCHED', state_since = g.sent_at, seq = t.seq + 2, attempts = g.number,
    agent_id = g.agent_id, instance_id = g.instance_id, sent_at = g.sent_at, received_at = NULL, completed_at = NULL,
    progress = NULL, timings = t.timings || g.timings::jsonb
  FROM given g JOIN locked l ON l.id = g.id
  WHERE t.id = g.id AND t.id = ANY(%(id)s::uuid[]) AND t.attempts = g.number - 1
    AND l.state IN ('RECEIVED', 'RETRY_WAIT')
  RETURNING t.id, t.seq, t.created_at, l.state
), attempt AS (
  INSERT INTO routing_attempt (task_id, number, key, namespace, agent_id, instance_id, capability, channel, worker,
    certainty, sent_at, deadline_at, decision)
  SELECT g.id, g.number, g.key, g.namespace, g.agent_id, g.instance_id, g.capability, g.channel,
    CASE WHEN g.channel NOT IN ('pull', 'stream') THEN %(boot)s::uuid END,
    'MAYBE_RAN', g.sent_at, g.deadline_at, g.decision::jsonb
  FROM given g JOIN sent s ON s.id = g.id
), event AS (
  INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
    elapsed_ms, detail)
  SELECT s.id, s.seq - 1, g.routed_at, 'ROUTED', s.state, 'ROUTED', g.number, g.agent_id, g.instance_id, %(node)s,
    least(extract(epoch FROM g.routed_at - s.created_at) * 1000, 2147483647), NULL::jsonb
  FROM sent s JOIN given g ON g.id = s.id
  UNION ALL
  SELECT s.id, s.seq, g.sent_at, 'DISPATCHED', 'ROUTED', 'DISPATCHED', g.number, g.agent_id, g.instance_id, %(node)s,
    least(extract(epoch FROM g.sent_at - s.created_at) * 1000, 2147483647), g.detail::jsonb
  FROM sent s JOIN given g ON g.id = s.id
)
SELECT id FROM sent
UNION ALL  -- a repeat after a lost answer: the attempt of this very key is there and open
SELECT a.task_id FROM given g JOIN routing_attempt a ON a.task_id = g.id AND a.number = g.number
WHERE a.task_id = ANY(%(id)s::uuid[]) AND a.key = g.key AND a.ended_at IS NULL"""  # noqa: S608 - made of constants


def dispatch(dispatches: Sequence[Dispatch], boot_id: uuid.UUID, node: str | None = None) -> set[uuid.UUID]:
    """Write the attempts down; returns the ids of the tasks that may be sent now.

    A task that this worker holds no more (cancelled, ended, claimed elsewhere after a lapse) is not among them.
    """
    values = {"boot": boot_id, "node": node or here()}
    rows = [_row(one) for one in dispatches]
    return set(in_halves(lambda part: _write(part, values), rows, lambda row, error: []))


@robust
def _write(rows: list[tuple[Any, ...]], values: dict[str, Any]) -> list[uuid.UUID]:
    with hot_cursor() as cursor:
        cursor.execute(_DISPATCH, {**arrays(_COLUMNS, rows), **values}, prepare=True)
        return [row[0] for row in cursor.fetchall()]


def _row(one: Dispatch) -> tuple[Any, ...]:
    return (
        one.task.task_id, one.number, one.attempt_key, one.task.namespace, one.agent_id, one.instance_id,
        one.capability, one.channel, dumps(one.decision).decode(), one.deadline_at, one.routed_at, one.sent_at,
        dumps(one.timings).decode(), _detail(one),
    )  # fmt: skip


def _detail(one: Dispatch) -> str:
    """What its event says: how it is sent, and what is left of its time."""
    left_ms = (one.task.deadline_at - one.sent_at) // _MILLISECOND
    return dumps({"channel": one.channel, "budgetMs": max(0, left_ms)}).decode()

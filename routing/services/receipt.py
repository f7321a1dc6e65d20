"""The agent said that it has the task: from here on it works on its own."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from routing.services.node import here

RECEIPT_WITHIN = dt.timedelta(seconds=30)  # a task that was fetched and not acknowledged by then is given up on


@dataclass(frozen=True, slots=True)
class Receipt:
    """One attempt's receipt, matched by the boot id that sent it or by the attempt's key.

    `released`: no connection is held any more, the result comes by itself; False while this worker waits or polls.
    """

    task_id: uuid.UUID
    number: int
    at: dt.datetime
    worker: uuid.UUID | None = None
    attempt_key: uuid.UUID | None = None
    released: bool = False


_COLUMNS = {
    "id": "uuid", "number": "int", "at": "timestamptz", "worker": "uuid", "key": "uuid", "released": "bool",
}  # fmt: skip
_RECEIVED = f"""
WITH given AS (SELECT * FROM {unnest(_COLUMNS)}), locked AS MATERIALIZED (
  SELECT t.id, t.state, t.attempts, t.worker FROM routing_task t
  WHERE t.id = ANY(%(id)s::uuid[]) AND t.outcome IS NULL AND t.state IN ('DISPATCHED', 'RUNNING')
  ORDER BY t.id FOR UPDATE
), meant AS MATERIALIZED (
  SELECT g.*, l.state FROM given g JOIN locked l ON l.id = g.id AND l.attempts = g.number
  WHERE CASE WHEN g.worker IS NOT NULL THEN g.worker = l.worker ELSE EXISTS (SELECT FROM routing_attempt a
    WHERE a.task_id = l.id AND a.number = g.number AND a.key = g.key AND a.task_id = ANY(%(id)s::uuid[])) END
), noted AS (
  UPDATE routing_attempt a SET received_at = coalesce(a.received_at, m.at),
    worker = CASE WHEN m.released THEN NULL ELSE a.worker END
  FROM meant m WHERE a.task_id = m.id AND a.number = m.number AND a.task_id = ANY(%(id)s::uuid[]) AND a.ended_at IS NULL
), moved AS (
  UPDATE routing_task t SET state = 'RUNNING', state_since = m.at, seq = t.seq + 1, received_at = m.at
  FROM meant m WHERE t.id = m.id AND t.id = ANY(%(id)s::uuid[]) AND m.state = 'DISPATCHED'
  RETURNING t.id, t.seq, t.attempts, t.agent_id, t.instance_id, t.created_at, m.at
), event AS (
  INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
    elapsed_ms)
  SELECT v.id, v.seq, v.at, 'RUNNING', 'DISPATCHED', 'RUNNING', v.attempts, v.agent_id, v.instance_id, %(node)s,
    least(extract(epoch FROM v.at - v.created_at) * 1000, 2147483647)
  FROM moved v
)
SELECT id FROM meant"""  # noqa: S608 - made of constants


@robust
def received(receipts: Sequence[Receipt], node: str | None = None) -> set[uuid.UUID]:
    """Note receipts; returns the tasks whose present attempt they concern, those told before included."""
    rows = [(r.task_id, r.number, r.at, r.worker, r.attempt_key, r.released) for r in receipts]
    with hot_cursor() as cursor:
        cursor.execute(_RECEIVED, {**arrays(_COLUMNS, rows), "node": node or here()}, prepare=True)
        return {row[0] for row in cursor.fetchall()}

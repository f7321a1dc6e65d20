"""The agent said that it has the task: from here on it works on its own."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from routing.channels.polling import FIRST_S
from routing.services.node import here

POLLED = uuid.UUID(int=2)  # in the place of a worker: nobody holds it, and its `due_at` says when to ask the agent
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
    poll_url: str | None = None  # where the result must be asked for


_COLUMNS = {
    "id": "uuid", "number": "int", "at": "timestamptz", "worker": "uuid", "key": "uuid", "released": "bool",
    "poll": "text",
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
    worker = CASE WHEN m.released THEN NULL ELSE a.worker END,
    decision = CASE WHEN m.poll IS NULL THEN a.decision
      ELSE coalesce(a.decision, '{{}}') || jsonb_build_object('statusUrl', m.poll) END
  FROM meant m WHERE a.task_id = m.id AND a.number = m.number AND a.task_id = ANY(%(id)s::uuid[]) AND a.ended_at IS NULL
), moved AS (
  UPDATE routing_task t SET state = 'RUNNING', seq = t.seq + (m.state = 'DISPATCHED')::int,
    state_since = CASE WHEN m.state = 'DISPATCHED' THEN m.at ELSE t.state_since END,
    received_at = CASE WHEN m.state = 'DISPATCHED' THEN m.at ELSE t.received_at END,
    worker = CASE WHEN m.poll IS NULL THEN t.worker ELSE %(polled)s END,
    due_at = CASE WHEN m.poll IS NULL THEN t.due_at ELSE m.at + %(first)s END
  FROM meant m WHERE t.id = m.id AND t.id = ANY(%(id)s::uuid[]) AND (m.state = 'DISPATCHED' OR m.poll IS NOT NULL)
  RETURNING t.id, t.seq, t.attempts, t.agent_id, t.instance_id, t.created_at, m.at, m.state
), event AS (
  INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
    elapsed_ms)
  SELECT v.id, v.seq, v.at, 'RUNNING', 'DISPATCHED', 'RUNNING', v.attempts, v.agent_id, v.instance_id, %(node)s,
    least(extract(epoch FROM v.at - v.created_at) * 1000, 2147483647)
  FROM moved v WHERE v.state = 'DISPATCHED'
)
SELECT id FROM meant"""  # noqa: S608 - made of constants

_STILL_OPEN = "SELECT task_id FROM routing_attempt WHERE task_id = ANY(%s) AND key = ANY(%s) AND ended_at IS NULL"


@robust
def received(receipts: Sequence[Receipt], node: str | None = None) -> set[uuid.UUID]:
    """Note receipts; returns the tasks whose present attempt they concern, those told before included."""
    if not receipts:
        return set()
    rows = [(r.task_id, r.number, r.at, r.worker, r.attempt_key, r.released, r.poll_url) for r in receipts]
    values = {"node": node or here(), "polled": POLLED, "first": dt.timedelta(seconds=FIRST_S)}
    with hot_cursor() as cursor:
        cursor.execute(_RECEIVED, {**arrays(_COLUMNS, rows), **values}, prepare=True)
        return {row[0] for row in cursor.fetchall()}


@robust
def still_open(receipts: Sequence[Receipt]) -> set[uuid.UUID]:
    """The tasks whose attempts of these keys have not ended; notes nothing."""
    if not receipts:
        return set()
    with hot_cursor() as cursor:
        cursor.execute(_STILL_OPEN, [[r.task_id for r in receipts], [r.attempt_key for r in receipts]], prepare=True)
        return {row[0] for row in cursor.fetchall()}

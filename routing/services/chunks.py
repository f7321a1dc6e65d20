"""Chunks of answers as events: one event holds what came within a moment."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from common.json import dumps
from routing import endings
from routing.channels.chunks import value_of
from routing.services.node import here


@dataclass(frozen=True, slots=True)
class Chunked:
    """Some chunks of one attempt's answer, in order."""

    task_id: uuid.UUID
    number: int
    attempt_key: uuid.UUID
    at: dt.datetime
    chunks: tuple[bytes, ...]


_COLUMNS = {"id": "uuid", "number": "int", "key": "uuid", "at": "timestamptz", "detail": "text"}
_NOTE = f"""
WITH given AS (SELECT * FROM {unnest(_COLUMNS)}), locked AS MATERIALIZED (
  SELECT t.id, t.state, t.attempts FROM routing_task t
  WHERE t.id = ANY(%(id)s::uuid[]) AND t.outcome IS NULL AND t.state IN ('DISPATCHED', 'RUNNING')
  ORDER BY t.id FOR UPDATE
), noted AS (
  UPDATE routing_attempt a SET received_at = coalesce(a.received_at, g.at)
  FROM given g JOIN locked l ON l.id = g.id AND l.attempts = g.number
  WHERE a.task_id = g.id AND a.number = g.number AND a.key = g.key AND a.task_id = ANY(%(id)s::uuid[])
    AND a.ended_at IS NULL
  RETURNING a.task_id
), moved AS (
  UPDATE routing_task t SET state = 'RUNNING', seq = t.seq + 1, received_at = coalesce(t.received_at, g.at),
    state_since = CASE WHEN l.state = 'RUNNING' THEN t.state_since ELSE g.at END
  FROM given g JOIN locked l ON l.id = g.id JOIN noted n ON n.task_id = g.id
  WHERE t.id = g.id AND t.id = ANY(%(id)s::uuid[])
  RETURNING t.id, t.seq, l.state, t.attempts, t.agent_id, t.instance_id, t.created_at, g.at, g.detail
)
INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
  elapsed_ms, detail)
SELECT id, seq, at, 'CHUNK', state, 'RUNNING', attempts, agent_id, instance_id, %(node)s,
  least(extract(epoch FROM at - created_at) * 1000, 2147483647), detail::jsonb
FROM moved RETURNING task_id"""  # noqa: S608 - made of constants


@robust(patience=5.0)
def note(given: Sequence[Chunked]) -> None:
    """Put chunks on record, at most one entry a task; those of attempts that have ended are dropped."""
    rows = [(c.task_id, c.number, c.attempt_key, c.at, _detail(c)) for c in given]
    with hot_cursor() as cursor:
        cursor.execute(_NOTE, {**arrays(_COLUMNS, rows), "node": here()}, prepare=True)
        noted = [row[0] for row in cursor.fetchall()]
    endings.stepped(noted)


def _detail(one: Chunked) -> str:
    return dumps({"chunks": [value_of(chunk) for chunk in one.chunks]}).decode()

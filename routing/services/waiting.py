"""Nobody can take it just now: the task waits again, and no attempt was used."""

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

from common.arrays import arrays, unnest
from common.clock import now as clock_now
from common.database import hot_cursor, robust
from common.json import dumps
from routing.services.node import here

_COLUMNS = {"id": "uuid", "due_at": "timestamptz", "detail": "text"}
_PUT_BACK = f"""
WITH given AS (SELECT * FROM {unnest(_COLUMNS)}), locked AS MATERIALIZED (
  SELECT t.id FROM routing_task t
  WHERE t.id = ANY(%(id)s::uuid[]) AND NOT t.waiting AND t.outcome IS NULL AND t.state IN ('RECEIVED', 'RETRY_WAIT')
    AND (%(boot)s::uuid IS NULL OR t.worker = %(boot)s::uuid)
  ORDER BY t.id FOR UPDATE
), back AS (
  UPDATE routing_task t SET waiting = true, due_at = g.due_at, seq = t.seq + (g.detail IS NOT NULL)::int,
    strikes = t.strikes + coalesce((g.detail::jsonb ->> 'strikes')::int, 0),
    fallback = coalesce(g.detail::jsonb -> 'fallback', t.fallback)
  FROM given g JOIN locked l ON l.id = g.id WHERE t.id = g.id AND t.id = ANY(%(id)s::uuid[])
  RETURNING t.id, t.seq, t.state, t.created_at, g.detail
), event AS (
  INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, node, elapsed_ms, detail)
  SELECT b.id, b.seq, %(now)s,
    CASE WHEN jsonb_exists(b.detail::jsonb, 'fallback') THEN 'FALLBACK' ELSE 'WAITING' END, b.state, b.state, %(node)s,
    least(extract(epoch FROM %(now)s - b.created_at) * 1000, 2147483647), b.detail::jsonb
  FROM back b WHERE b.detail IS NOT NULL
)
SELECT id FROM back"""  # noqa: S608 - made of constants


@robust
def put_back(
    tasks: Sequence[tuple[uuid.UUID, dt.datetime, dict[str, Any] | None]],
    *,
    boot_id: uuid.UUID | None = None,
    node: str | None = None,
    now: dt.datetime | None = None,
) -> set[uuid.UUID]:
    """Let claimed tasks wait until their new due time; returns those that were still held.

    A detail, {"reason", "decision"} or {"reason", "strikes"}, writes a WAITING event, and with "fallback" in it a
    FALLBACK event: the task goes on with that substitute. Give one only when the reason differs from the last one's
    (`Claimed.waited_for`).
    `boot_id` limits it to what this worker holds.
    """
    values = {"boot": boot_id, "node": node or here(), "now": now or clock_now()}
    rows = [(id, due_at, None if detail is None else dumps(detail).decode()) for id, due_at, detail in tasks]
    with hot_cursor() as cursor:
        cursor.execute(_PUT_BACK, {**arrays(_COLUMNS, rows), **values}, prepare=True)
        return {row[0] for row in cursor.fetchall()}

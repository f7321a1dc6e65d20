"""A person's "once more" for a task that has ended without success."""

import datetime as dt
import uuid
from typing import Any

from django.db import transaction

from common.database import hot_cursor, robust
from common.errors import NotFound, StateConflict
from registry.services import audit
from routing import queue
from routing.services import places
from routing.services.node import here

_LOOK = """
SELECT t.namespace, t.client, t.state, t.outcome, t.round, t.max_attempts,
  coalesce((SELECT max(e.at) FROM routing_event e WHERE e.task_id = t.id AND e.event = 'RETRIED'), t.created_at),
  coalesce(t.not_before, t.created_at)
FROM routing_task t WHERE t.id = %s FOR UPDATE"""
_AGAIN = """
WITH again AS (
  UPDATE routing_task t SET state = 'RECEIVED', state_since = %(now)s, outcome = NULL, seq = t.seq + 1, waiting = true,
    due_at = %(now)s, worker = NULL, round = t.round + 1,
    max_attempts = least(t.max_attempts + t.max_attempts / t.round, 30000),
    budget_at = %(now)s + (t.budget_at - %(began)s), expires_at = %(now)s + (t.expires_at - %(started)s),
    deadline_at = %(now)s + least(t.budget_at - %(began)s, t.expires_at - %(started)s),
    strikes = 0, ended_at = NULL, completed_at = NULL, received_at = NULL, sent_at = NULL, progress = NULL,
    timings = '{}', fallback = NULL, error_code = NULL, error_message = NULL, error_retryable = NULL,
    error_details = NULL
  WHERE t.id = %(id)s RETURNING t.id, t.seq, t.created_at
), body AS (
  UPDATE routing_taskbody SET result = NULL, late = NULL WHERE task_id = %(id)s
)
INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, node, elapsed_ms, detail)
SELECT id, seq, %(now)s, 'RETRIED', %(state)s, 'RECEIVED', %(node)s,
  least(extract(epoch FROM %(now)s - created_at) * 1000, 2147483647),
  jsonb_build_object('actor', %(actor)s::text)
FROM again"""


def retry(task_id: uuid.UUID, actor: str, now: dt.datetime, *, ip: str = "") -> None:
    """Begin another round of the same task: fresh budget and time to live, and as many attempts more as at first.

    Raises NotFound, and StateConflict when it has not ended or has succeeded.
    """
    places.reopened(*_begin_again(task_id, actor, now, ip))
    queue.nudge([task_id])


@robust(patience=2.0)
def _begin_again(task_id: uuid.UUID, actor: str, now: dt.datetime, ip: str) -> tuple[str, str]:
    """The namespace and client whose task it is."""
    with transaction.atomic(), hot_cursor() as cursor:
        row = cursor.execute(_LOOK, [task_id]).fetchone()
        if row is None:
            raise NotFound
        namespace, client, state, outcome, number, _, began, not_before = row
        if outcome is None or state == "SUCCEEDED":
            raise StateConflict(f"the task is {state}; only one that ended without success can be retried")
        values: dict[str, Any] = {
            "id": task_id, "now": now, "began": began, "started": max(began, not_before), "state": state,
            "node": here(), "actor": actor,
        }  # fmt: skip
        cursor.execute(_AGAIN, values)
        before, after = {"state": state, "round": number}, {"state": "RECEIVED", "round": number + 1}
        audit.record(
            actor, "task.retry", f"task:{task_id}", namespace=namespace, before=before, after=after, ip=ip, now=now
        )
        return namespace, client

"""Calling a task off, at any time before its end."""

import datetime as dt
import uuid

from django.db import transaction

from common.database import hot_cursor, robust
from common.errors import NotFound, NotReady, StateConflict
from registry.services import audit
from routing.services import moves, notices
from routing.services.moves import Ending, Match, Move
from routing.states import TaskError, TaskState

_LOOK = """
SELECT t.namespace, t.state, t.outcome, t.attempts, t.agent_id, (SELECT a.worker IS NOT NULL FROM routing_attempt a
  WHERE a.task_id = t.id AND a.number = t.attempts AND a.ended_at IS NULL)
FROM routing_task t WHERE t.id = %s FOR UPDATE"""


@robust(patience=2.0)
def cancel(task_id: uuid.UUID, actor: str, now: dt.datetime, *, ip: str = "") -> None:
    """End the task as CANCELLED, with its event and its callback; nothing is sent for it any more, and the agent that
    works on it is told.

    Raises NotFound, and StateConflict when it has ended.
    """
    ending = Ending(TaskError.CANCELLED, f"It was cancelled by {actor}.")
    with transaction.atomic(), hot_cursor() as cursor:
        row = cursor.execute(_LOOK, [task_id]).fetchone()
        if row is None:
            raise NotFound
        namespace, state, outcome, number, agent_id, is_held = row
        if outcome is not None:
            raise StateConflict(f"the task has ended as {state}")
        told_by = None if is_held is None else notices.how(namespace, agent_id, is_held=is_held)
        detail = {"actor": actor, **({"agentToldBy": told_by} if told_by else {})}
        [settled] = moves.apply([Move(task_id, TaskState.CANCELLED, now, Match.SEQ, error=ending, detail=detail)])
        if not settled.applied:
            raise NotReady
        if told_by == "ADDRESS":
            notices.mark(cursor, task_id, number, now)
        if told_by in ("ADDRESS", "CONNECTION"):
            transaction.on_commit(lambda: notices.hurry([task_id]))
        changed = {"before": {"state": state}, "after": {"state": settled.state}}
        audit.record(actor, "task.cancel", f"task:{task_id}", namespace=namespace, **changed, ip=ip, now=now)

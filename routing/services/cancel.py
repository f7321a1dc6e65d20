"""Calling a task off, at any time before its end."""

import datetime as dt
import uuid

from django.db import transaction

from common.database import hot_cursor, robust
from common.errors import NotFound, NotReady, StateConflict
from registry.services import audit
from routing.services import moves
from routing.services.moves import Ending, Match, Move
from routing.states import TaskError, TaskState

_LOOK = "SELECT namespace, state, outcome FROM routing_task WHERE id = %s FOR UPDATE"


@robust(patience=2.0)
def cancel(task_id: uuid.UUID, actor: str, now: dt.datetime, *, ip: str = "") -> None:
    """End the task as CANCELLED, with its event and its callback; nothing is sent for it any more.

    Raises NotFound, and StateConflict when it has ended.
    """
    ending = Ending(TaskError.CANCELLED, f"It was cancelled by {actor}.")
    move = Move(task_id, TaskState.CANCELLED, now, Match.SEQ, error=ending, detail={"actor": actor})
    with transaction.atomic(), hot_cursor() as cursor:
        row = cursor.execute(_LOOK, [task_id]).fetchone()
        if row is None:
            raise NotFound
        namespace, state, outcome = row
        if outcome is not None:
            raise StateConflict(f"the task has ended as {state}")
        [settled] = moves.apply([move])
        if not settled.applied:
            raise NotReady
        changed = {"before": {"state": state}, "after": {"state": settled.state}}
        audit.record(actor, "task.cancel", f"task:{task_id}", namespace=namespace, **changed, ip=ip, now=now)

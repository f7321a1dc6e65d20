"""Calling a task off, at any time before its end."""

import datetime as dt
import uuid

from common.database import hot_cursor
from common.errors import NotFound, NotReady, StateConflict
from registry.services import audit
from routing.services import moves
from routing.services.moves import Ending, Match, Move
from routing.states import FINAL, TaskError, TaskState

_TRIES = 20  # events that may come in between


def cancel(task_id: uuid.UUID, actor: str, now: dt.datetime, *, ip: str = "") -> None:
    """End the task as CANCELLED, with its event and its callback; nothing is sent for it any more.

    Raises NotFound, and StateConflict when it has ended.
    """
    ending = Ending(TaskError.CANCELLED, f"It was cancelled by {actor}.")
    move = Move(task_id, TaskState.CANCELLED, now, Match.SEQ, error=ending, detail={"actor": actor})
    for _ in range(_TRIES):
        [settled] = moves.apply([move])
        if settled.applied:
            audit.record(actor, "task.cancel", f"task:{task_id}", namespace=_look(task_id)[0], ip=ip, now=now)
            return
        _, state = _look(task_id)
        if state in FINAL:
            raise StateConflict(f"the task has ended as {state}")
    raise NotReady


def _look(task_id: uuid.UUID) -> tuple[str, str]:
    """Namespace and state; raises NotFound."""
    with hot_cursor() as cursor:
        row = cursor.execute("SELECT namespace, state FROM routing_task WHERE id = %s", [task_id]).fetchone()
    if row is None:
        raise NotFound
    return row[0], row[1]

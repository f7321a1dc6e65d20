"""Tasks whose taking-up killed the worker, again and again: they end rather than kill the next one.

A worker's death counts one strike on every task that it had claimed and not sent (`workers.give_back`); from the
attempt's row on, a death uses the attempt up instead (`sweep`).
"""

import datetime as dt
import uuid

from common.database import hot_cursor, robust
from routing.policy import GAVE_UP_MESSAGE, LEAST_STRIKES
from routing.services import moves
from routing.services.moves import Ending, Match, Move
from routing.states import TaskError, TaskState

_HOPELESS = """
SELECT id, strikes + 1 FROM routing_task
WHERE worker = ANY(%(boots)s::uuid[]) AND outcome IS NULL AND NOT waiting AND state IN ('RECEIVED', 'RETRY_WAIT')
  AND strikes + 1 >= greatest(max_attempts, %(least)s)
ORDER BY id LIMIT %(limit)s"""


def end_hopeless(dead: list[uuid.UUID], now: dt.datetime, node: str | None, limit: int) -> int:
    """End the tasks that these dead workers held and that have struck often enough; returns how many."""
    ends = [_end(task_id, strikes, now) for task_id, strikes in _hopeless(dead, limit)]
    return sum(one.applied for one in moves.apply(ends, node=node)) if ends else 0


@robust(patience=2.0)
def _hopeless(dead: list[uuid.UUID], limit: int) -> list[tuple[uuid.UUID, int]]:
    with hot_cursor() as cursor:
        cursor.execute(_HOPELESS, {"boots": dead, "least": LEAST_STRIKES, "limit": limit})
        return cursor.fetchall()


def _end(task_id: uuid.UUID, strikes: int, now: dt.datetime) -> Move:
    ending = Ending(TaskError.INTERNAL_ERROR, GAVE_UP_MESSAGE.format(strikes), details={"strikes": strikes})
    return Move(task_id, TaskState.FAILED, now, Match.SEQ, error=ending)

"""Earlier attempts of a task of which nobody knows whether they ran."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from common.database import hot_cursor, robust

_NEWEST = """
SELECT DISTINCT ON (a.task_id) a.task_id, a.agent_id, a.instance_id, a.capability, a.certainty
FROM routing_attempt a WHERE a.task_id = ANY(%(ids)s::uuid[]) AND a.certainty <> 'NOT_SENT' AND a.ended_at IS NOT NULL
ORDER BY a.task_id, a.certainty = 'MAYBE_RAN' DESC, a.number DESC"""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The newest attempt that may have run, or else the newest that did and failed."""

    agent_id: str
    instance_id: str
    capability: str
    certainty: str


@robust
def of(task_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Doubt]:
    """The doubt of each task that has one."""
    with hot_cursor() as cursor:
        rows = cursor.execute(_NEWEST, {"ids": list(task_ids)}, prepare=True).fetchall()
    return {row[0]: Doubt(*row[1:]) for row in rows}

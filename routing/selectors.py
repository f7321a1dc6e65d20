"""Reading tasks and their journeys, in few queries, newest first, never without a limit."""

import datetime as dt
import uuid
from typing import Any

from django.db import connection

from common.database import robust
from common.ids import floor_id
from common.json import parse
from routing.states import FINAL

_TASK = """
SELECT t.*, {bodies} c.state AS callback_state, c.attempts AS callback_attempts, c.due_at AS callback_due_at,
  c.last_error AS callback_last_error, c.created_at AS callback_created_at, c.ended_at AS callback_ended_at
FROM {tasks} JOIN routing_taskbody b ON b.task_id = t.id
LEFT JOIN LATERAL (SELECT * FROM callbacks_callback c WHERE c.id = t.callback_id) c ON true"""
_BODIES = "b.metadata, b.result, b.late,"
_ONE = _TASK.format(bodies=_BODIES, tasks="routing_task t") + " WHERE t.id = %(id)s AND b.task_id = %(id)s"
_JSON = ("call_path", "timings", "progress", "error_details")

Row = dict[str, Any]


@robust(patience=2.0)
def task(task_id: uuid.UUID, *, namespace: str | None = None, client: str | None = None) -> Row | None:
    """One task with its bodies and its callback's state, for `documents.task_document`; None when it is not there.

    `namespace` and `client`, where given, must be the task's own.
    """
    found = _rows(_ONE, {"id": task_id})
    own = [row for row in found if namespace in (None, row["namespace"]) and client in (None, row["client"])]
    return own[0] if own else None


@robust(patience=2.0)
def tasks(
    namespace: str,
    *,
    client: str | None = None,
    state: str | None = None,
    ability: str | None = None,
    agent_id: str | None = None,
    correlation_id: str | None = None,
    trace_id: str | None = None,
    created_after: dt.datetime | None = None,
    created_before: dt.datetime | None = None,
    before: uuid.UUID | None = None,
    limit: int = 50,
    bodies: bool = True,
) -> list[Row]:
    """At most `limit` tasks, newest first, those older than the task `before`; rows as `task` gives them, or without
    their bodies, which may be large."""
    values: Row = {"namespace": namespace, "limit": limit}
    wheres = ["t.namespace = %(namespace)s"]

    def only(condition: str, **given: Any) -> None:
        wheres.append(condition)
        values.update(given)

    if client is not None:
        only("t.client = %(client)s", client=client)
    if state is not None:
        only("t.outcome = %(state)s" if state in FINAL else "t.outcome IS NULL AND t.state = %(state)s", state=state)
    if ability is not None:
        only("t.ability = %(ability)s", ability=ability)
    if trace_id is not None:
        only("t.trace_id = %(trace_id)s", trace_id=trace_id)
    if correlation_id is not None:
        only(f"t.id IN ({_BY_CORRELATION})", correlation_id=correlation_id)
    if agent_id is not None:
        only(f"t.id IN ({_BY_AGENT})", agent_id=agent_id)
    if created_after is not None:
        only("t.id >= %(low)s", low=floor_id(created_after))
    if created_before is not None:
        only("t.id < %(high)s", high=floor_id(created_before))
    if before is not None:
        only("t.id < %(before)s", before=before)
    page = f"(SELECT * FROM routing_task t WHERE {' AND '.join(wheres)} ORDER BY t.id DESC LIMIT %(limit)s) t"  # noqa: S608
    return _rows(_TASK.format(bodies=_BODIES if bodies else "", tasks=page) + " ORDER BY t.id DESC", values)


_BY_CORRELATION = """
SELECT i.task_id FROM routing_idempotency i
WHERE i.correlation_id = %(correlation_id)s AND i.namespace = %(namespace)s"""
_BY_AGENT = "SELECT a.task_id FROM routing_attempt a WHERE a.namespace = %(namespace)s AND a.agent_id = %(agent_id)s"


@robust(patience=2.0)
def trace(namespace: str, trace_id: str, *, client: str | None = None, limit: int = 1000) -> list[Row]:
    """The tasks of a trace, oldest first."""
    values = {"namespace": namespace, "trace_id": trace_id, "client": client, "limit": limit}
    page = f"({_TRACE}) t"
    return _rows(_TASK.format(bodies=_BODIES, tasks=page) + " ORDER BY t.id", values)


_TRACE = """
SELECT * FROM routing_task WHERE namespace = %(namespace)s AND trace_id = %(trace_id)s
  AND (%(client)s::text IS NULL OR client = %(client)s::text)
ORDER BY id LIMIT %(limit)s"""


def tree(rows: list[Row], key: str = "id", parent: str = "parent_id") -> list[Row]:
    """Rows with their `children`, under the roots; a row whose parent is not among them is a root."""
    nodes = {row[key]: {**row, "children": []} for row in rows}
    roots: list[Row] = []
    for node in nodes.values():
        above = nodes.get(node[parent])
        (above["children"] if above else roots).append(node)
    return roots


def _rows(statement: str, values: Row) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [_row(dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def _row(row: Row) -> Row:
    """jsonb comes as text on Django's connections."""
    for name in _JSON:
        if isinstance(row[name], str):
            row[name] = parse(row[name].encode())
    return row

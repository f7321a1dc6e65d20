"""All tasks of a trace, as the tree of who called whom."""

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from common.clock import rfc3339
from common.errors import NotFound
from routing.models import Task

LIMIT = 1000
DEEPEST_DRAWN = 9  # what is deeper stands below the ninth step, so that a narrow screen still shows its name
NARROWEST = 0.5  # per cent; a bar that is there can be seen


@dataclass(frozen=True, slots=True)
class Node:
    """A task in the tree as it is drawn: `left` and `width` in per cent of the trace's time, `ms` its own."""

    task: Task
    depth: int
    children: int
    left: float
    width: float
    ms: float
    open: bool

    @property
    def step(self) -> int:
        return min(self.depth, DEEPEST_DRAWN)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A trace's tasks, each followed by those that it asked for; `ms` from the first's acceptance to the last's end."""

    trace_id: str
    nodes: list[Node]
    ms: float
    truncated: bool

    @property
    def failed(self) -> int:
        return sum(node.task.state in ("FAILED", "TIMEOUT") for node in self.nodes)

    @property
    def open(self) -> int:
        return sum(node.open for node in self.nodes)


def trace(trace_id: str, *, namespace: str | None, client: str | None = None) -> dict[str, Any]:
    """The document of GET /v1/traces/{traceId}: at most 1000 tasks, oldest first. Raises NotFound."""
    rows = Task.objects.filter(trace_id=trace_id)
    if namespace is not None:
        rows = rows.filter(namespace=namespace)
    if client is not None:
        rows = rows.filter(client=client)
    tasks = list(rows.order_by("id")[: LIMIT + 1])
    if not tasks:
        raise NotFound
    return {"traceId": trace_id, "tasks": tree(tasks[:LIMIT]), "truncated": len(tasks) > LIMIT}


def drawn(among: QuerySet[Task], trace_id: str, now: dt.datetime) -> Drawn | None:
    """The trace as a page shows it, of the tasks that one may see; None when there are none."""
    tasks = list(among.filter(trace_id=trace_id).order_by("id")[: LIMIT + 1])
    truncated, tasks = len(tasks) > LIMIT, tasks[:LIMIT]
    if not tasks:
        return None
    start = min(task.created_at for task in tasks)
    whole = max((task.ended_at or now) - start for task in tasks)
    scale = max(whole, dt.timedelta(milliseconds=1))

    def node(task: Task, depth: int, children: int) -> Node:
        length = max((task.ended_at or now) - task.created_at, dt.timedelta(0))
        left = min(100 * ((task.created_at - start) / scale), 100 - NARROWEST)
        width = min(max(100 * (length / scale), NARROWEST), 100 - left)
        ms = length / dt.timedelta(milliseconds=1)
        return Node(task, depth, children, round(left, 3), round(width, 3), ms, task.ended_at is None)

    nodes = [node(*one) for one in _in_order(tasks)]
    return Drawn(trace_id, nodes, max(whole / dt.timedelta(milliseconds=1), 0), truncated)


def _in_order(tasks: list[Task]) -> list[tuple[Task, int, int]]:
    """(task, depth, number of children), parents before their children; a call path may be as long as the trace."""
    known = {task.id for task in tasks}
    children: defaultdict[uuid.UUID | None, list[Task]] = defaultdict(list)
    for task in tasks:
        children[_parent(task, known)].append(task)
    rows, stack = [], [(task, 0) for task in reversed(children[None])]
    while stack:
        task, depth = stack.pop()
        rows.append((task, depth, len(children[task.id])))
        stack += [(child, depth + 1) for child in reversed(children[task.id])]
    return rows


def _parent(task: Task, known: Collection[uuid.UUID]) -> uuid.UUID | None:
    """A parent is older than its children: whatever else a row says could only make a loop."""
    parent = task.parent_id
    return parent if parent and parent in known and parent < task.id else None


def tree(tasks: list[Task]) -> list[dict[str, Any]]:
    """The tasks under their parents; one whose parent is not among them is a root."""
    nodes = {task.id: _node(task) for task in tasks}
    roots: list[dict[str, Any]] = []
    for task in tasks:
        parent = _parent(task, nodes.keys())
        (nodes[parent]["children"] if parent else roots).append(nodes[task.id])
    return roots


def _node(task: Task) -> dict[str, Any]:
    return {
        "taskId": str(task.id),
        "parentTaskId": str(task.parent_id) if task.parent_id else None,
        "correlationId": task.correlation_id,
        "namespace": task.namespace,
        "client": task.client,
        "ability": task.ability,
        "agentId": task.agent_id,
        "instanceId": task.instance_id,
        "state": task.state,
        "attempts": task.attempts,
        "createdAt": rfc3339(task.created_at),
        "endedAt": rfc3339(task.ended_at),
        "error": {"code": task.error_code, "message": task.error_message} if task.error_code else None,
        "children": [],
    }

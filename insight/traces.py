"""All tasks of a trace, as the tree of who called whom."""

from typing import Any

from common.clock import rfc3339
from common.errors import NotFound
from routing.models import Task

LIMIT = 1000


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


def tree(tasks: list[Task]) -> list[dict[str, Any]]:
    """The tasks under their parents; one whose parent is not among them is a root."""
    nodes = {task.id: _node(task) for task in tasks}
    roots: list[dict[str, Any]] = []
    for task in tasks:
        # a parent is older than its children: whatever else a row says could only make a loop
        parent = nodes.get(task.parent_id) if task.parent_id and task.parent_id < task.id else None
        (parent["children"] if parent else roots).append(nodes[task.id])
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

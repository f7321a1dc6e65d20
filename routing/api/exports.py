"""The list of tasks as a file, written page by page while it is read."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from django.http import StreamingHttpResponse

from common.clock import rfc3339
from common.tables import csv_lines
from routing.documents import PRIORITIES

PAGE = 500
COLUMNS = (
    "taskId", "traceId", "correlationId", "namespace", "client", "ability", "agentId", "instanceId", "state",
    "attempts", "maxAttempts", "priority", "sessionId", "parentTaskId", "createdAt", "deadlineAt", "endedAt", "totalMs",
    "errorCode", "errorMessage", "callbackState", "callbackAttempts", "callbackLastError",
)  # fmt: skip

Page = Callable[[uuid.UUID | None, int], list[dict[str, Any]]]  # rows after this id, at most so many


def tasks_as_csv(page: Page, after: uuid.UUID | None, limit: int | None) -> StreamingHttpResponse:
    """All tasks that `page` gives, or `limit` of them; one page of rows is in memory at a time, no body ever is."""
    rows = (_cells(row) for row in _rows(page, after, limit))
    response = StreamingHttpResponse(csv_lines(COLUMNS, rows), content_type="text/csv; charset=utf-8; header=present")
    response["Content-Disposition"] = 'attachment; filename="tasks.csv"'
    return response


def _rows(page: Page, after: uuid.UUID | None, limit: int | None) -> Iterator[dict[str, Any]]:
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = page(after, size)
        yield from rows
        if len(rows) < size:
            return
        after = rows[-1]["id"]
        left = None if left is None else left - size


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    ended, created = row["ended_at"], row["created_at"]
    return (
        row["id"], row["trace_id"], row["correlation_id"], row["namespace"], row["client"], row["ability"],
        row["agent_id"], row["instance_id"], row["state"], row["attempts"], row["max_attempts"],
        PRIORITIES[row["priority"]], row["session_id"], row["parent_id"], rfc3339(created), rfc3339(row["deadline_at"]),
        rfc3339(ended), None if ended is None else max(0, round((ended - created).total_seconds() * 1000)),
        row["error_code"], row["error_message"], row["callback_state"] or "NONE", row["callback_attempts"] or 0,
        row["callback_last_error"],
    )  # fmt: skip

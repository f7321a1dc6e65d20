"""The documents that callers get, written once: the task, its result, and the body of its callback."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec

from common.clock import rfc3339
from common.json import dumps

TIMINGS = ("queuedMs", "discoveryMs", "routingMs", "poolWaitMs", "connectMs", "agentMs", "callbackMs", "totalMs")
PRIORITIES = ("high", "normal", "low")


def result_bytes(
    status: str,
    data: bytes | None,
    *,
    agent: Mapping[str, Any] | None,
    usage: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
    degraded_by: Mapping[str, Any] | None = None,
) -> bytes:
    """The `result` member; `data` is JSON and goes in untouched, None is null."""
    return dumps(
        {
            "status": status,
            "data": raw(data),
            "degraded": degraded_by is not None,
            "degradedBy": degraded_by,
            "agent": agent,
            "usage": usage or {},
            "cost": cost,
        }
    )


def error_object(code: str, message: str, retryable: bool | None, details: Any = None) -> dict[str, Any]:
    """The `error` member of tasks and callbacks; `details` only where there are some."""
    error = {"code": code, "message": message, "retryable": bool(retryable)}
    return {**error, "details": details} if details else error


def timings_object(timings: Mapping[str, int], created_at: dt.datetime, ended_at: dt.datetime | None) -> dict[str, Any]:
    """Every phase in milliseconds; null where it has not happened."""
    total = None if ended_at is None else max(0, round((ended_at - created_at).total_seconds() * 1000))
    return {**dict.fromkeys(TIMINGS), **timings, "totalMs": total}


def callback_body(
    task: Mapping[str, Any],
    *,
    state: str,
    result: bytes | None,
    error: Mapping[str, Any] | None,
    timings: Mapping[str, Any],
    metadata: bytes | None,
    late: bool = False,
) -> bytes:
    """What a receiver is sent; `task` gives id, trace_id and correlation_id."""
    return dumps(
        {
            "schemaVersion": "1.0",
            "messageType": "task.result",
            "taskId": task["id"],
            "traceId": task["trace_id"],
            "correlationId": task["correlation_id"],
            "state": state,
            "result": raw(result),
            "error": error,
            "timings": timings,
            "late": late,
            "metadata": raw(metadata) or {},
        }
    )


def progress_body(task: Mapping[str, Any], shown: Mapping[str, Any], sequence: int, at: dt.datetime) -> bytes:
    """What a receiver is sent on the way; `sequence` rises with each, `shown` has percent and message."""
    return dumps(
        {
            "schemaVersion": "1.0",
            "messageType": "task.progress",
            "taskId": task["id"],
            "traceId": task["trace_id"],
            "correlationId": task["correlation_id"],
            "state": "RUNNING",
            "progress": {"percent": shown.get("percent"), "message": shown.get("message")},
            "sequence": sequence,
            "at": rfc3339(at),
            "metadata": raw(task["metadata"]) or {},
        }
    )


def task_document(row: Mapping[str, Any]) -> bytes:
    """`GET /v1/tasks/{id}` of a row of `selectors.task`."""
    return dumps(task_object(row))


def task_object(row: Mapping[str, Any]) -> dict[str, Any]:
    """The task document as an object for `common.json.dumps`; bodies in it are the bytes as received."""
    return {
        "taskId": row["id"],
        "traceId": row["trace_id"],
        "correlationId": row["correlation_id"],
        "namespace": row["namespace"],
        "ability": row["ability"],
        "agentId": row["agent_id"],
        "instanceId": row["instance_id"],
        "state": row["state"],
        "stateSince": rfc3339(row["state_since"]),
        "attempts": row["attempts"],
        "maxAttempts": row["max_attempts"],
        "priority": PRIORITIES[row["priority"]],
        "sessionId": row["session_id"],
        "parentTaskId": row["parent_id"],
        "createdAt": rfc3339(row["created_at"]),
        "deadlineAt": rfc3339(row["deadline_at"]),
        "endedAt": rfc3339(row["ended_at"]),
        "metadata": raw(row["metadata"]) or {},
        "result": raw(row["result"]),
        "error": _error(row),
        "progress": row["progress"],
        "confirmations": {
            "sentAt": rfc3339(row["sent_at"]),
            "receivedAt": rfc3339(row["received_at"]),
            "completedAt": rfc3339(row["completed_at"]),
        },
        "timings": {
            **timings_object(row["timings"], row["created_at"], row["ended_at"]),
            "callbackMs": _callback_ms(row),
        },
        "callback": _callback(row),
        "late": raw(row["late"]),
    }


def _error(row: Mapping[str, Any]) -> dict[str, Any] | None:
    if row["error_code"] is None:
        return None
    return error_object(row["error_code"], row["error_message"] or "", row["error_retryable"], row["error_details"])


def _callback(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "state": row["callback_state"] or "NONE",
        "attempts": row["callback_attempts"] or 0,
        "nextAttemptAt": rfc3339(row["callback_due_at"]) if row["callback_state"] == "PENDING" else None,
        "lastError": row["callback_last_error"],
    }


def _callback_ms(row: Mapping[str, Any]) -> int | None:
    if row["callback_state"] != "DELIVERED" or row["callback_ended_at"] is None:
        return None
    took: dt.timedelta = row["callback_ended_at"] - row["callback_created_at"]
    return max(0, round(took.total_seconds() * 1000))


def raw(data: bytes | memoryview | None) -> msgspec.Raw | None:
    """JSON bytes for a place in a document; None is null."""
    return None if data is None else msgspec.Raw(bytes(data))

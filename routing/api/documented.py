"""The shapes of this package's answers, for the OpenAPI document."""

from typing import Any

from registry.api.view import OBJECT, STRING, TIME
from routing.documents import TIMINGS
from routing.route_tables import ROUTE
from routing.states import TaskError, TaskState

_OPTIONAL = {"type": ["string", "null"]}
_MS = {"type": ["integer", "null"]}
_COUNT = {"type": "integer"}


def _shape(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


ACCEPTED = _shape(
    {
        "code": {"const": 202},
        "taskId": {"type": "string", "format": "uuid"},
        "traceId": STRING,
        "correlationId": _OPTIONAL,
        "state": {"enum": list(TaskState.values)},
        "statusUrl": {"type": "string", "format": "uri"},
    },
    required=["code", "taskId", "traceId", "correlationId", "state", "statusUrl"],
)

BATCH_ITEMS = _shape(
    {
        "items": {
            "type": "array",
            "items": _shape({"index": _COUNT, "status": _COUNT, "taskId": STRING, "error": OBJECT}),
        }
    }
)

LEASED = _shape(
    {
        "tasks": {
            "type": "array",
            "items": _shape(
                {
                    "taskId": {"type": "string", "format": "uuid"},
                    "payload": OBJECT,
                    "attempt": _COUNT,
                    "attemptKey": STRING,
                    "leaseUntil": TIME,
                },
                description="The request as other channels send it, and until when a receipt is awaited.",
            ),
        }
    },
    required=["tasks"],
)

_RESULT = _shape(
    {
        "status": STRING,
        "data": {},
        "degraded": {"type": "boolean"},
        "degradedBy": {
            "type": ["object", "null"],
            "properties": {
                "kind": {"enum": ["substitute", "cached", "static", "partial"]},
                "ability": STRING,
                "agentId": {"type": ["string", "null"]},
                "at": {"type": "string", "format": "date-time"},
            },
        },
        "agent": _shape({"agentId": STRING, "version": STRING, "instanceId": STRING}),
        "usage": OBJECT,
        "cost": {"type": ["object", "null"]},
    }
)
_RESULT["type"] = ["object", "null"]

TASK_DOCUMENT = _shape(
    {
        "taskId": {"type": "string", "format": "uuid"},
        "traceId": STRING,
        "correlationId": _OPTIONAL,
        "namespace": STRING,
        "ability": STRING,
        "agentId": _OPTIONAL,
        "instanceId": _OPTIONAL,
        "state": {"enum": list(TaskState.values)},
        "stateSince": TIME,
        "attempts": _COUNT,
        "maxAttempts": _COUNT,
        "priority": {"enum": ["high", "normal", "low"]},
        "createdAt": TIME,
        "deadlineAt": TIME,
        "endedAt": TIME,
        "metadata": OBJECT,
        "result": _RESULT,
        "error": {
            "type": ["object", "null"],
            "properties": {
                "code": {"enum": list(TaskError.values)},
                "message": STRING,
                "retryable": {"type": "boolean"},
                "details": {},
            },
        },
        "progress": {"type": ["object", "null"]},
        "confirmations": _shape(dict.fromkeys(("sentAt", "receivedAt", "completedAt"), TIME)),
        "timings": _shape(dict.fromkeys(TIMINGS, _MS)),
        "callback": _shape(
            {
                "state": {"enum": ["NONE", "PENDING", "DELIVERED", "DEAD"]},
                "attempts": _COUNT,
                "nextAttemptAt": TIME,
                "lastError": _OPTIONAL,
            }
        ),
        "late": {"type": ["object", "null"]},
    }
)

_CHANGE = _shape(
    {"ability": STRING, "change": {"enum": ["created", "changed", "unchanged"]}, "before": {}, "after": OBJECT}
)
ROUTES = _shape(
    {"apiVersion": STRING, "kind": STRING, "namespace": STRING, "routes": {"type": "array", "items": ROUTE}}
)
PUT_ROUTES = _shape(
    {
        "namespace": STRING,
        "dryRun": {"type": "boolean"},
        "changes": {"type": "array", "items": _CHANGE},
        "warnings": {"type": "array", "items": STRING},
    }
)

ABILITY = _shape(
    {
        "ability": STRING,
        "route": {"enum": ["explicit", "implicit"]},
        "strategy": STRING,
        "agents": {"type": "array", "items": OBJECT},
        "available": {"type": "boolean"},
    }
)

CHOSEN = _shape(
    {
        "matchedAgent": _OPTIONAL,
        "instanceId": _OPTIONAL,
        "ability": STRING,
        "matchType": {"enum": ["exact", "tag", "semantic"]},
        "score": {"type": ["number", "null"]},
        "confidence": {"type": ["number", "null"]},
        "schemaHint": {
            "type": ["object", "null"],
            "properties": {
                "action": STRING,
                "method": STRING,
                "path": STRING,
                "requestSample": {"description": "As declared; null where nothing was."},
                "inputSchema": {"description": "JSON Schema; null where nothing was declared."},
            },
        },
        "alternatives": {
            "type": "array",
            "items": _shape({"agentId": STRING, "instanceId": STRING, "score": {"type": ["number", "null"]}}),
        },
        "decisionId": STRING,
        "endpoint": {"type": ["string", "null"], "description": "Only with the scope `route:endpoint`."},
        "leaseMs": {
            "type": ["integer", "null"],
            "description": "How long a slot is kept for the call unless its outcome is reported; null while slots are"
            " not counted.",
        },
        "decision": {"type": ["object", "null"], "description": "With `explain`: every instance, and why not it."},
    }
)

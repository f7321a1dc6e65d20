"""The bodies of this package's smaller requests as JSON Schema: what checks them, and what the OpenAPI shows."""

from typing import Any

from common.schema import Validator
from routing.request_schema import PRINTABLE, UUID

_TEXT = {"type": "string", "maxLength": 2000}
_KEY = {"type": "string", "description": "As it came with the request to the agent.", "maxLength": 64}


def _report(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    properties = {"attemptKey": _KEY, **properties}
    needed = ["attemptKey", *required]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False, **more}


NOTHING = {"type": "object", "additionalProperties": False}

RECEIPT = _report({})
PROGRESS = _report({"percent": {"type": "number", "minimum": 0, "maximum": 100}, "message": _TEXT})
RESULT = _report(
    {
        "status": {"enum": ["SUCCEEDED", "FAILED"]},
        "data": {"description": "Any JSON."},
        "error": {
            "type": ["object", "null"],
            "properties": {
                "code": _TEXT,
                "message": {"type": "string"},
                "retryable": {"type": "boolean"},
                "details": {"type": ["object", "null"], "description": "Free-form."},
            },
            "additionalProperties": False,
        },
        "usage": {"type": ["object", "null"], "description": "Free-form."},
        "cost": {"type": ["object", "null"]},
    },
    "status",
    examples=[{"attemptKey": "019abc…", "status": "SUCCEEDED", "data": {"category": "login"}, "usage": {"tokens": 12}}],
)

LEASE = {
    "type": "object",
    "properties": {
        "instanceId": {"type": "string", "minLength": 1, "maxLength": 128},
        "max": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
    },
    "required": ["instanceId"],
    "additionalProperties": False,
    "examples": [{"instanceId": "i-1", "max": 4}],
}

REDELIVER_FILTER = {
    "type": "object",
    "properties": {
        "client": {"type": "string", "minLength": 1, "maxLength": 128},
        "from": {"type": "string", "format": "date-time"},
        "to": {"type": "string", "format": "date-time"},
        "state": {"enum": ["DEAD", "DELIVERED"], "default": "DEAD"},
    },
    "additionalProperties": False,
}

CHOOSE = {
    "type": "object",
    "properties": {
        "ability": {"type": "string", "minLength": 1, "maxLength": 200},
        "intent": {"type": "string", "minLength": 1, "maxLength": 2000},
        "mode": {"enum": ["exact", "tag", "semantic", "auto"]},
        "tags": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 64}, "maxItems": 50},
        "sessionId": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": PRINTABLE},
        "namespace": {"type": "string", "minLength": 1, "maxLength": 63},
        "network": {"type": "string", "minLength": 1, "maxLength": 64},
        "explain": {"type": "boolean"},
    },
    "oneOf": [
        {"required": ["ability"], "properties": {"intent": False}},
        {"required": ["intent"], "properties": {"ability": False}},
        {"required": ["tags"], "properties": {"ability": False, "intent": False, "tags": {"minItems": 1}}},
    ],
    "additionalProperties": False,
    "examples": [{"ability": "ticket.classify", "explain": True}],
}

OUTCOME = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean"},
        "latencyMs": {"type": "number", "minimum": 0, "maximum": 86_400_000},
        "code": {
            "type": "string",
            "minLength": 1,
            "maxLength": 64,
            "description": "What went wrong; a task error code.",
        },
    },
    "required": ["ok"],
    "additionalProperties": False,
    "examples": [{"ok": False, "latencyMs": 5000, "code": "TIMEOUT"}],
}

TASK_ID = {"type": "string", "format": "uuid", "pattern": UUID}

nothing = Validator(NOTHING)
receipt = Validator(RECEIPT)
progress = Validator(PROGRESS)
result = Validator(RESULT)
lease = Validator(LEASE)
redeliver_filter = Validator(REDELIVER_FILTER)
choose = Validator(CHOOSE)
outcome = Validator(OUTCOME)

"""What `POST /v1/reach` takes, as one JSON Schema: the validator and the API's description both read it."""

from typing import Any

DAY_MS = 86_400_000
LIFE_MS = 30 * DAY_MS  # the longest budget and time to live
BATCH_LIMIT = 500

# Controls, line separators and marks that show nothing; and every kind of space, which may not stand at an end.
# Written out, since \p{…} is not known to every reader of the OpenAPI document.
_UNSEEN = r"\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff"
_SPACES = r"\u0020\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
PRINTABLE = f"^[^{_UNSEEN}{_SPACES}](?:[^{_UNSEEN}]*[^{_UNSEEN}{_SPACES}])?$"
TRACE_ID = "^[A-Za-z0-9._-]+$"
UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
HEADER_TEXT = r"^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$"


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _text(limit: int, **more: Any) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": limit, **more}


def _texts(limit: int, count: int) -> dict[str, Any]:
    return {"type": "array", "items": _text(limit), "maxItems": count}


def _milliseconds(most: int, least: int = 1) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


TARGET = _object(
    {
        "ability": _text(200, examples=["ticket.classify"]),
        "agentId": _text(128, description="Pins the agent."),
        "intent": _text(2000, description="Plain words instead of an ability."),
        "tags": _texts(64, 50),
        "requires": {
            "type": "object",
            "description": "Labels that the instance must have.",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "maxProperties": 50,
        },
    },
    oneOf=[{"required": ["ability"]}, {"required": ["intent"]}],
)

FALLBACK = _object(
    {
        "substitutes": _texts(200, 20),
        "static": {"description": "Any JSON; answers when nobody else can."},
        "cachedResult": {"type": "boolean"},
        "partial": {"type": "boolean"},
        "mode": {"enum": ["substitute_first", "static_first"]},
    }
)

CALLBACK = _object(
    {
        "type": {"enum": ["http", "stream"]},
        "url": _text(2048),
        "topic": _text(128, pattern="^[A-Za-z0-9._:-]+$"),
        "authToken": _text(4096, pattern=HEADER_TEXT, description="Sent back as `Authorization: Bearer …`."),
        "events": {"type": "array", "items": {"enum": ["progress", "final"]}, "minItems": 1, "uniqueItems": True},
    },
    required=["type"],
    oneOf=[
        {"properties": {"type": {"const": "http"}, "topic": False}, "required": ["url"]},
        {"properties": {"type": {"const": "stream"}, "url": False, "authToken": False}, "required": ["topic"]},
    ],
)

METADATA = {
    "type": "object",
    "description": "Free-form; `priority` and `delivery` have a meaning of their own.",
    "properties": {
        "priority": {"enum": ["high", "normal", "low"]},
        "delivery": {"enum": ["interactive", "batch"]},
    },
}

REACH: dict[str, Any] = _object(
    {
        "schemaVersion": {"const": "1.0"},
        "messageType": {"const": "task.request"},
        "traceId": _text(64, pattern=TRACE_ID),
        "correlationId": _text(128, pattern=PRINTABLE, examples=["order-10086"]),
        "sessionId": _text(128, pattern=PRINTABLE),
        "parentTaskId": _text(36, pattern=UUID),
        "target": TARGET,
        "payload": {"type": "object", "description": "Checked against the capability's input schema."},
        "timeoutMs": _milliseconds(DAY_MS),
        "timeoutBudgetMs": _milliseconds(LIFE_MS),
        "ttlMs": _milliseconds(LIFE_MS),
        "notBefore": _text(64, format="date-time"),
        "retry": _object(
            {
                "maxAttempts": {"type": "integer", "minimum": 1, "maximum": 100},
                "backoffMs": _milliseconds(DAY_MS, least=0),
            }
        ),
        "preferLocal": _text(128),
        "fallback": FALLBACK,
        "callback": CALLBACK,
        "metadata": METADATA,
    },
    required=["target", "payload"],
)

BATCH: dict[str, Any] = _object(
    {"tasks": {"type": "array", "maxItems": BATCH_LIMIT}},
    required=["tasks"],
)

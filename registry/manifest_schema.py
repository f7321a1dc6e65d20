"""The manifest as one JSON Schema document: what registration checks, and what the OpenAPI document shows.

Unknown fields are refused everywhere but inside schemas, samples and examples, which are the agent's own.
"""

from typing import Any

from registry import probes

AGENT_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
CAPABILITY_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$"
HEADER_VALUE = r"^[\x20-\x7e\t]{0,4096}$"
LINE = r"^[^\x00-\x1f\x7f]*$"
CHANNELS = ("http", "stream", "pull", "websocket", "function", "a2a")
PRESETS = ("openai-chat", "dify", "langserve", "jsonrpc", "text")
PROBES = tuple(probes.REGISTRY)
DAY_MS = 86_400_000

Schema = dict[str, Any]


def obj(properties: Schema, *, required: tuple[str, ...] = (), **more: Any) -> Schema:
    """An object without other fields than these."""
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": list(required)} if required else {}),
        **more,
    }


def maybe(schema: Schema) -> Schema:
    """The same, or null, which means that nothing is said."""
    kind = schema["type"]
    return {**schema, "type": [kind, "null"], **({"enum": [*schema["enum"], None]} if "enum" in schema else {})}


def text(longest: int = 200, **more: Any) -> Schema:
    return {"type": "string", "maxLength": longest, "pattern": LINE, **more}


def whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def amount() -> Schema:
    return {"type": "number", "minimum": 0, "maximum": 1e12}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def listed(item: Schema, most: int, *, unique: bool = False) -> Schema:
    return {"type": "array", "items": item, "maxItems": most, **({"uniqueItems": True} if unique else {})}


def named(value: Schema, most: int, key_pattern: str = r"^[^\x00-\x1f\x7f]{1,128}$") -> Schema:
    return {
        "type": "object",
        "propertyNames": {"pattern": key_pattern},
        "additionalProperties": value,
        "maxProperties": most,
    }


BOOLEAN: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
URL = text(2048, minLength=1)
POINTER = {"type": "string", "maxLength": 500, "pattern": r"^(/[^\x00-\x1f\x7f]*)?$"}
PAYLOAD_SCHEMA: Schema = {
    "type": ["object", "boolean", "null"],
    "description": "JSON Schema with local $ref only, or the shorthand `field: type`",
}
HEADERS = named({"type": "string", "pattern": HEADER_VALUE}, 50, HEADER_NAME)
VERSION = text(64, minLength=1)
COST = obj({
    "perCall": amount(), "perSecond": amount(), "perToken": amount(),
    "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
})  # fmt: skip

CAPABILITY = obj(
    {
        "name": {"type": "string", "pattern": CAPABILITY_NAME},
        "description": {"type": "string", "maxLength": 4000},
        "inputSchema": PAYLOAD_SCHEMA,
        "outputSchema": PAYLOAD_SCHEMA,
        "requestSample": {"type": ["object", "null"]},
        "latencySlaMs": maybe(whole(1, DAY_MS)),
        "dependencies": listed(text(128, minLength=1), 100, unique=True),
        "method": one_of("GET", "POST", "PUT", "PATCH", "DELETE"),
        "path": text(1024, pattern=r"^/[^\x00-\x20\x7f#]*$"),
        "stateful": BOOLEAN,
        "examples": listed(obj({"input": ANYTHING, "output": ANYTHING}), 50),
        "sideEffects": BOOLEAN,
        "idempotent": BOOLEAN,
        "sensitiveFields": listed(POINTER, 100),
        "idempotencyFrom": listed(POINTER, 20),
        "responseMapping": maybe(named(text(1000, minLength=1), 200)),
    },
    required=("name",),
)

ADAPTER = obj({
    "kind": one_of(*CHANNELS),
    "preset": maybe(one_of(*PRESETS)),
    "request": ANYTHING,
    "response": ANYTHING,
    "headers": HEADERS,
})  # fmt: skip

PROBE = obj({
    "type": one_of(*PROBES),
    "path": maybe(text(1024, pattern=r"^/[^\x00-\x20\x7f#]*$")),
    "port": maybe(whole(1, 65535)),
    "headers": HEADERS,
    "method": maybe(text(128)),
    "service": maybe(text(256)),
    "expect": obj({"status": whole(100, 599), "json": ANYTHING, "notPrefix": text(256)}),
    "intervalMs": whole(1000, 3_600_000),
    "timeoutMs": whole(10, 300_000),
    "retries": whole(1, 100),
    "command": maybe(text(128)),
})  # fmt: skip

RESOURCES = named(obj({"degradedBelow": {"type": "number"}, "degradedAbove": {"type": "number"}}, minProperties=1), 50)

SPEC = obj(
    {
        "displayName": text(200),
        "owner": text(128),
        "tags": listed(text(64, minLength=1), 100, unique=True),
        "external": BOOLEAN,
        "protocol": obj({
            "schemaVersions": listed(text(16, minLength=1), 20, unique=True),
            "needs": listed(text(128, minLength=1), 50, unique=True),
        }),
        "capabilities": {**listed(CAPABILITY, 500), "minItems": 1},
        "adapter": ADAPTER,
        "limits": obj({
            "maxConcurrency": whole(1, 1_000_000),
            "timeoutMs": whole(1, DAY_MS),
            "latencyCeilingMs": whole(1, DAY_MS),
            "instanceShare": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        }),
        "resources": RESOURCES,
        "channels": {**listed(one_of(*CHANNELS), len(CHANNELS), unique=True), "minItems": 1},
        "endpoints": obj({name: maybe(URL) for name in ("invoke", "health", "lookup", "cancel", "status")}),
        "probe": maybe(PROBE),
        "cost": maybe(COST),
    },
    required=("capabilities",),
)  # fmt: skip

METADATA = obj({"name": {"type": "string", "pattern": AGENT_ID}, "version": VERSION}, required=("name", "version"))

MANIFEST = obj(
    {
        "apiVersion": one_of("agent-reach/v1"),
        "kind": one_of("AgentManifest"),
        "metadata": METADATA,
        "spec": SPEC,
    },
    required=("apiVersion", "kind", "metadata", "spec"),
    title="AgentManifest",
)

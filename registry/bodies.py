"""The bodies of the registry's requests, as JSON Schema: checked by these, and shown by the OpenAPI document."""

from common.schema import Validator
from registry.hooks.messages import EVENTS
from registry.manifest_schema import (
    AGENT_ID,
    BOOLEAN,
    CHANNELS,
    COST,
    URL,
    listed,
    maybe,
    named,
    obj,
    one_of,
    text,
    whole,
)
from registry.models import Client, Membership
from registry.principal import CLIENT_SCOPES
from registry.services.namespaces import NAME

CLIENT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$"
USER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,149}$"
HEADER_KEY = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
LONGEST_OVERLAP_S = 30 * 86_400
LOWEST_RATE, HIGHEST_RATE = 0.0001, 1_000_000  # a second; one in three hours is the least that can be counted out
HEALTH_WORDS = ("ok", "degraded", "down")

NAMESPACE_NAME = {"type": "string", "pattern": NAME}
OVERLAP = {**whole(0, LONGEST_OVERLAP_S), "description": "seconds for which the old keys stay good"}
LABEL = {"type": ["string", "number", "boolean"], "maxLength": 200}

NAMESPACE = obj({"name": NAMESPACE_NAME, "retentionDays": whole(1, 3650)}, required=("name",))

CLIENT = obj(
    {
        "name": {"type": "string", "pattern": CLIENT_NAME},
        "namespace": NAMESPACE_NAME,
        "scopes": listed(one_of(*CLIENT_SCOPES), len(CLIENT_SCOPES), unique=True),
        "abilities": listed(text(200, minLength=1), 500, unique=True),
        "limits": obj({
            "ratePerSecond": {"type": "number", "minimum": LOWEST_RATE, "maximum": HIGHEST_RATE},
            "burst": whole(1, 1_000_000),
            "maxConcurrency": whole(1, 1_000_000),
        }),
        "callbackSchedule": one_of(*Client.Schedule.values),
    },
    required=("name",),
)  # fmt: skip

ROTATE = obj({"namespace": NAMESPACE_NAME, "overlapSeconds": OVERLAP})
AGENT_CREDENTIAL = obj({"namespace": NAMESPACE_NAME, "overlapSeconds": OVERLAP})
MAINTENANCE = obj({"on": BOOLEAN}, required=("on",))
SECRETS = named(
    {"type": ["string", "null"], "minLength": 1, "maxLength": 4096, "pattern": r"^[\x20-\x7e]*$"},
    50,
    HEADER_KEY,
)

INSTANCE = obj({
    "invokeUrl": maybe(URL),
    "healthUrl": maybe(URL),
    "lookupUrl": maybe(URL),
    "networks": named(URL, 20),
    "region": maybe(text(64)),
    "zone": maybe(text(64)),
    "version": maybe(text(64)),
    "labels": named(LABEL, 50),
    "cost": maybe(COST),
    "weight": whole(0, 1_000_000),
    "maxConcurrency": maybe(whole(1, 1_000_000)),
    "preferChannel": maybe(one_of(*CHANNELS)),
})  # fmt: skip

HEARTBEAT = obj({
    "status": one_of("ok", "degraded", "draining"),
    "components": named(one_of(*HEALTH_WORDS), 100),
    "resources": named(maybe({"type": "number"}), 100),
    "inflight": whole(0, 1_000_000_000),
    "weightPercent": whole(0, 100),
})  # fmt: skip

HOOK = obj(
    {
        "agentId": maybe({"type": "string", "pattern": AGENT_ID}),
        "events": listed(one_of(*EVENTS), len(EVENTS), unique=True) | {"minItems": 1},
        "url": maybe(URL),
        "command": maybe(text(64, minLength=1)),
    },
    required=("events",),
)

USER = obj(
    {
        "user": {"type": "string", "pattern": USER_NAME},
        "role": one_of(*Membership.Role.values),
        "team": text(128),
        "namespaces": listed({"type": "string", "pattern": r"^(\*|[a-z0-9-]{1,63})$"}, 1000, unique=True),
    },
    required=("user", "role"),
)

namespace = Validator(NAMESPACE)
client = Validator(CLIENT)
rotate = Validator(ROTATE)
agent_credential = Validator(AGENT_CREDENTIAL)
maintenance = Validator(MAINTENANCE)
secrets = Validator(SECRETS)
instance = Validator(INSTANCE)
heartbeat = Validator(HEARTBEAT)
hook = Validator(HOOK)
user = Validator(USER)

"""What hooks tell, and the values that telling takes and gives. Bodies are flat JSON, as those of callbacks are."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.clock import rfc3339
from common.encoding import dumps, storable

STATE, RESOURCE, ALERT, TEST = "agent.state", "agent.resource", "alert", "hook.test"
EVENTS = (STATE, RESOURCE, ALERT)  # that a hook may ask for; a test comes to every hook


@dataclass(frozen=True, slots=True)
class Due:
    """A firing leased to this process, to send now; `number` is this try. `url` or `command` is empty."""

    id: uuid.UUID
    hook_id: uuid.UUID
    event: str
    agent_id: str
    url: str
    command: str
    secrets: bytes  # encrypted
    body: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Tried:
    """How one try went. `error` None = told; `status` is the HTTP or exit status; `retry_after_s` what the receiver
    asked for; `permanent` = no try can succeed; `gone` = the receiver wants no more of this hook."""

    due: Due
    at: datetime
    took_ms: int
    status: int | None
    error: str | None
    permanent: bool = False
    gone: bool = False
    retry_after_s: int | None = None


def message_id(firing_id: uuid.UUID) -> str:
    """The webhook-id: the same for every try."""
    return f"msg_{firing_id.hex}"


def body_of(event: str, at: datetime, namespace: str, agent_id: str | None, fields: Mapping[str, Any]) -> bytes:
    """The bytes that are sent."""
    head = {"schemaVersion": "1.0", "messageType": event, "at": rfc3339(at), "namespace": namespace}
    return dumps(storable({**head, "agentId": agent_id, **fields}))

"""What a probe is given, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class CannotProbe(Exception):
    """The check cannot be made: something is missing on the platform's side or in the manifest; the text says what."""


@dataclass(frozen=True, slots=True)
class Hollow:
    """Healthy, but by a check that looks at nothing the agent depends on."""

    reason: str = "healthy, but the check says nothing of what the agent depends on"


@dataclass(frozen=True, slots=True)
class Sample:
    """A request that changes nothing, for the agent's own invoke path. `output` is a JSON Schema or None; `signing` is
    (access key, secret key) or None."""

    agent_id: str
    namespace: str
    capability: str
    payload: dict[str, Any]
    method: str = "POST"
    stateful: bool = False
    output: Any = None
    signing: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One probe to make. `url` says scheme, host, port and path; header values are in clear. `rpc` is the JSON-RPC
    method, `service` the gRPC one, `command` a name in REACH_PROBE_COMMANDS, `expect` as in the manifest;
    `has_dependencies` = the manifest names some."""

    kind: str
    url: str
    timeout_s: float
    headers: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    rpc: str = "ping"
    service: str = ""
    command: str = ""
    sample: Sample | None = None
    has_dependencies: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """`ok` is None when the check could not be made, which says nothing of the instance; `ms` = how long it took;
    `hollow` = good by a check that looks at nothing the agent depends on."""

    ok: bool | None
    ms: float
    reason: str
    hollow: bool = False

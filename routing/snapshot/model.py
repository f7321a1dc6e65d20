"""The values that a snapshot consists of."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from common.schema import Validator


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One running copy of an agent; `max_concurrency` is its own or else its agent's."""

    instance_id: str
    agent_id: str
    invoke_url: str
    lookup_url: str = ""
    region: str = ""
    zone: str = ""
    version: str = ""
    labels: dict[str, Any] = field(default_factory=dict)
    state: str = "ONLINE"
    state_since: dt.datetime | None = None
    weight: int = 100
    max_concurrency: int | None = None
    draining: bool = False
    weight_percent: int = 100
    prefer_channel: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from every other instance of its namespace."""
        return self.agent_id, self.instance_id


@dataclass(frozen=True, slots=True)
class CapabilityView:
    """One function of an agent; `input` and `output` are None where nothing was declared."""

    name: str
    input: Validator | None = None
    output: Validator | None = None
    latency_sla_ms: int | None = None
    side_effects: bool = False
    idempotent: bool = False
    stateful: bool = False
    sensitive_fields: tuple[str, ...] = ()
    idempotency_from: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    response_mapping: dict[str, str] = field(default_factory=dict)
    method: str = "POST"
    path: str = ""


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent with all its instances, whatever their state; `signing` is (access key, secret key)."""

    agent_id: str
    version: str = ""
    external: bool = False
    maintenance: bool = False
    tags: tuple[str, ...] = ()
    timeout_ms: int | None = None
    max_concurrency: int | None = None
    protocol: dict[str, Any] = field(default_factory=dict)
    channels: tuple[str, ...] = ("http",)
    instances: tuple[InstanceView, ...] = ()
    signing: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CandidateView:
    """One agent's capability behind an ability; weights are traffic shares, None = in the strategy's pool."""

    agent: AgentView
    capability: CapabilityView
    weight: int | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class RouteView:
    """A route's settings with the defaults filled in; `settings` as they were given."""

    strategy: str
    max_attempts: int
    backoff_ms: tuple[int, ...]
    jitter_ms: int
    jitter_share: float | None
    retryable: frozenset[str]
    when_unavailable: str = "wait"
    limits: dict[str, Any] = field(default_factory=dict)
    breaker: dict[str, Any] = field(default_factory=dict)
    fallback: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ability:
    """A name that callers use, with the candidates behind it; `explicit` when somebody wrote a route for it."""

    name: str
    explicit: bool
    route: RouteView
    candidates: tuple[CandidateView, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A namespace as of `version`."""

    namespace: str
    version: int
    loaded_at: dt.datetime
    abilities: dict[str, Ability]
    agents: dict[str, AgentView]

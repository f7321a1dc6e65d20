"""The values that a snapshot consists of."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from common.schema import Validator
from registry.score import DEFAULT, Parts, Weights, score


class Vitals:
    """How an instance has answered lately. The one thing in a snapshot that changes: it is refilled in place every few
    seconds, for which nothing is built anew."""

    __slots__ = ("_by_weights", "health", "latency", "mean_ms", "score", "success")

    def __init__(
        self,
        health: float = 1.0,
        latency: float | None = None,
        success: float | None = None,
        mean_ms: float | None = None,
    ):
        """Factors from 0 to 1 as in `Parts`; `mean_ms` of the last minute."""
        self.health = health
        self.refill(latency, success, mean_ms)

    def refill(self, latency: float | None, success: float | None, mean_ms: float | None) -> None:
        self.latency, self.success, self.mean_ms = latency, success, mean_ms
        self.score = score(Parts(self.health, latency, success))
        self._by_weights: dict[Weights, float] = {DEFAULT: self.score}

    def score_by(self, weights: Weights) -> float:
        """The score by a route's own weights."""
        found = self._by_weights.get(weights)
        if found is None:
            found = self._by_weights[weights] = score(Parts(self.health, self.latency, self.success), weights)
        return found


@dataclass(frozen=True, slots=True)
class Price:
    """What a call costs, as declared; nothing where nothing is."""

    per_call: float = 0.0
    per_second: float = 0.0
    per_token: float = 0.0
    currency: str = ""


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
    networks: dict[str, str] = field(default_factory=dict)
    cost: Price | None = None
    vitals: Vitals = field(default_factory=Vitals, compare=False)
    pk: int = 0
    ejected: bool = False  # OFFLINE by what its calls show

    @property
    def score(self) -> float:
        """How well it can be reached, from 0 to 1, by the usual weights."""
        return self.vitals.score

    def address_in(self, network: str | None) -> str:
        """Where a caller in this network reaches it by itself; empty where it cannot."""
        return self.networks.get(network, "") if network and self.networks else self.invoke_url

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
    description: str = ""
    input_schema: Any = None  # as JSON Schema
    request_sample: Any = None


@dataclass(frozen=True, slots=True)
class AdapterView:
    """How the requests and answers of an agent that speaks something else are rewritten; `headers` may name `secrets`
    (in clear) as ${secret:name}."""

    preset: str | None = None
    request: Any = None
    response: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    secrets: dict[str, str] = field(default_factory=dict, repr=False)


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
    schema_versions: frozenset[str] = frozenset()  # of messages that it accepts; none = all
    needs: frozenset[str] = frozenset()  # metadata that it cannot do without
    display_name: str = ""
    channels: tuple[str, ...] = ("http",)
    instances: tuple[InstanceView, ...] = ()
    signing: tuple[str, str] | None = None
    adapter: AdapterView | None = None
    cancel_url: str = ""  # where it wants to hear that a task was cancelled


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
    score_weights: Weights = DEFAULT


@dataclass(frozen=True, slots=True)
class Ability:
    """A name that callers use, with the candidates behind it; `explicit` when somebody wrote a route for it. `kept` is
    where the choice keeps what it works out of it once."""

    name: str
    explicit: bool
    route: RouteView
    candidates: tuple[CandidateView, ...]
    kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A namespace as of `version`."""

    namespace: str
    version: int
    loaded_at: dt.datetime
    abilities: dict[str, Ability]
    agents: dict[str, AgentView]

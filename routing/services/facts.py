"""What `policy.decide` is told of a task whose worker is not at hand: read from rows and from the snapshot."""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec

from routing import snapshot
from routing.breaker.counting import Call
from routing.policy import RouteFacts, TaskFacts, attempts_of
from routing.snapshot import Ability, CapabilityView
from routing.snapshot.model import AdapterView, Price

NO_RETRY = RouteFacts((), 0, None, frozenset())


class _Retry(msgspec.Struct, rename="camel"):
    backoff_ms: float | None = None


class _Request(msgspec.Struct):
    retry: _Retry = msgspec.field(default_factory=_Retry)


_decoder = msgspec.json.Decoder(_Request)


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """An open attempt and its task, as rows have them."""

    namespace: str
    ability: str
    agent_id: str
    capability: str
    attempts: int
    max_attempts: int
    created_at: dt.datetime
    deadline_at: dt.datetime
    expires_at: dt.datetime
    request: bytes
    client: str
    task_id: uuid.UUID
    fallback: dict[str, Any] | None = None  # as in `Substitute`

    @property
    def serving(self) -> str:
        """The ability that serves it: its own, or a substitute."""
        return str(self.fallback["ability"]) if self.fallback else self.ability


def capability_of(attempt: AttemptFacts) -> CapabilityView | None:
    """What the agent declares of the capability now; None when it is gone."""
    ability = _ability(attempt)
    for one in ability.candidates if ability else ():
        if one.agent.agent_id == attempt.agent_id and one.capability.name == attempt.capability:
            return one.capability
    return None


def price_of(attempt: AttemptFacts, instance_id: str) -> Price | None:
    """What a call of the instance costs, as declared now."""
    agent = snapshot.current(attempt.namespace).agents.get(attempt.agent_id)
    return next((one.cost for one in agent.instances if one.instance_id == instance_id), None) if agent else None


def signing_of(attempt: AttemptFacts) -> tuple[str, str] | None:
    """The key that requests to the agent are signed with, if it has one."""
    agent = snapshot.current(attempt.namespace).agents.get(attempt.agent_id)
    return agent.signing if agent else None


def adapter_of(attempt: AttemptFacts) -> AdapterView | None:
    """How the agent's answers are read, if not as they are."""
    agent = snapshot.current(attempt.namespace).agents.get(attempt.agent_id)
    return agent.adapter if agent else None


def task_facts(attempt: AttemptFacts) -> TaskFacts:
    """Side effects are assumed where the declaration is gone: a second run could then do harm."""
    capability = capability_of(attempt)
    ability = _ability(attempt)
    allowed = ability.route.max_attempts if ability else 1
    attempts, most = attempts_of(attempt.attempts, attempt.max_attempts, attempt.fallback, allowed)
    return TaskFacts(
        attempts=attempts,
        max_attempts=most,
        deadline_at=attempt.deadline_at,
        expires_at=attempt.expires_at,
        side_effects=capability.side_effects if capability else True,
        idempotent=capability.idempotent if capability else False,
        has_lookup=_has_lookup(attempt),
    )


def _has_lookup(attempt: AttemptFacts) -> bool:
    agent = snapshot.current(attempt.namespace).agents.get(attempt.agent_id)
    return agent is not None and any(one.lookup_url for one in agent.instances)


def route_facts(attempt: AttemptFacts) -> RouteFacts:
    """How the route retries, with the caller's own wait where one was asked for."""
    ability = _ability(attempt)
    if ability is None:
        return NO_RETRY
    asked: Any = _decoder.decode(attempt.request).retry.backoff_ms
    route = ability.route
    backoff = route.backoff_ms if asked is None else (int(asked),)
    return RouteFacts(backoff, route.jitter_ms, route.jitter_share, route.retryable)


def call_of(attempt: AttemptFacts, instance_id: str, sent_at: dt.datetime) -> Call:
    """The call as its breakers see it."""
    ability = _ability(attempt)
    agents = [c.agent for c in ability.candidates if c.agent.agent_id == attempt.agent_id] if ability else []
    return Call(
        namespace=attempt.namespace,
        agent_id=attempt.agent_id,
        instance_id=instance_id,
        ability=attempt.serving,
        client=attempt.client,
        task_id=attempt.task_id,
        sent_at=sent_at,
        external=any(agent.external for agent in agents),
        given=ability.route.breaker if ability else {},
    )


def _ability(attempt: AttemptFacts) -> Ability | None:
    return snapshot.current(attempt.namespace).abilities.get(attempt.serving)

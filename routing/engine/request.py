"""The members of a stored request that a trip needs, read without touching its payload."""

from typing import Any

import msgspec
from django.conf import settings

from common import clock
from common.json import parse
from routing import breaker
from routing.ask import Ask
from routing.breaker import barred
from routing.snapshot.model import Ability, CapabilityView
from routing.trip import Claimed

TIMEOUT_MS = 30_000
LONGEST_MS = 24 * 3600 * 1000


class Target(msgspec.Struct):
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    tags: list[str] = []
    requires: dict[str, Any] = {}


class Retry(msgspec.Struct):
    backoff_ms: float | None = msgspec.field(default=None, name="backoffMs")


class Request(msgspec.Struct):
    """What the caller asked for; payload and metadata as their very bytes."""

    payload: msgspec.Raw
    target: Target = msgspec.field(default_factory=Target)
    metadata: msgspec.Raw = msgspec.Raw()
    timeout_ms: float | None = msgspec.field(default=None, name="timeoutMs")
    prefer_local: str | None = msgspec.field(default=None, name="preferLocal")
    retry: Retry = msgspec.field(default_factory=Retry)

    @property
    def delivery(self) -> str | None:
        """`metadata.delivery`: interactive, batch, or nothing said."""
        metadata = bytes(self.metadata)
        return _delivery(metadata).delivery if b'"delivery"' in metadata else None


class _Metadata(msgspec.Struct):
    delivery: str | None = None


_delivery = msgspec.json.Decoder(_Metadata).decode
read = msgspec.json.Decoder(Request).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def ask_of(task: Claimed, request: Request, ability: Ability | None, left_ms: int) -> Ask:
    """What this task asks of the routing."""
    now = clock.now()
    circuits = breaker.view().open(task.namespace)
    return Ask(
        namespace=task.namespace,
        ability=task.serving,
        task_id=task.task_id,
        left_ms=left_ms,
        session_id=task.session_id,
        agent_id=None if task.fallback else request.target.agent_id,
        tags=tuple(request.target.tags),
        requires=request.target.requires,
        prefer_local=request.prefer_local,
        call_path=tuple(task.call_path),
        fits=_Fit(bytes(request.payload)).fits if task.fallback or _schemas_differ(ability) else None,
        context=_context(request.metadata) if _somebody_needs(ability) else None,
        zones=settings.REACH_ZONES,
        now=now,
        barred=barred(circuits, task.namespace, ability, task.client, now.timestamp()) if ability else breaker.NOBODY,
    )


def _schemas_differ(ability: Ability | None) -> bool:
    return ability is not None and len({id(c.capability.input) for c in ability.candidates}) > 1


def _somebody_needs(ability: Ability | None) -> bool:
    return ability is not None and any(c.agent.needs for c in ability.candidates)


def _context(metadata: msgspec.Raw) -> frozenset[str]:
    """The names of the metadata that says something."""
    given = _members(metadata) if bytes(metadata) else {}
    return frozenset(name for name, value in given.items() if bytes(value) != b"null")


class _Fit:
    """Checks a payload against one capability after the other, parsing it once."""

    def __init__(self, payload: bytes):
        self._value = parse(payload)

    def fits(self, capability: CapabilityView) -> bool:
        return capability.input is None or capability.input.ok(self._value)


def timeout_ms(request: Request, agents_ms: int | None) -> int:
    """One attempt's limit: the caller's, else the agent's, else half a minute; a day at the most."""
    asked = request.timeout_ms if request.timeout_ms is not None else agents_ms
    return min(int(asked if asked is not None else TIMEOUT_MS), LONGEST_MS)

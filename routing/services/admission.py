"""Whether a request may become a task, and what that task is: everything that is checked before the row is written."""

import datetime as dt
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from common.addresses import UrlRefused, check_url, networks
from common.errors import (
    AbilityNotAllowed,
    AbilityNotRegistered,
    CallbackUrlRefused,
    FieldErrors,
    Forbidden,
    Invalid,
    PayloadInvalid,
)
from common.json import dumps
from registry.principal import Principal
from routing.matching import matched
from routing.requests import ReachRequest
from routing.snapshot import Ability, CandidateView, RouteView, Snapshot

DEFAULT_TIMEOUT_MS = 30_000
LONGEST_TIMEOUT_MS = 86_400_000
GRACE_MS = 60_000
_OPEN_AT_AGENT = ("DISPATCHED", "RUNNING")


@dataclass(frozen=True, slots=True)
class Parent:
    """What a child task takes from its parent; `call_path` ends with the parent's own agent."""

    task_id: uuid.UUID
    namespace: str
    client: str
    agent_id: str | None
    state: str
    is_open: bool
    trace_id: str
    call_path: tuple[str, ...]
    deadline_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Times:
    """When a task is due and when it ends for want of time; `deadline_at` is the earlier of budget and time to live."""

    due_at: dt.datetime
    not_before: dt.datetime | None
    budget_at: dt.datetime
    expires_at: dt.datetime

    @property
    def deadline_at(self) -> dt.datetime:
        return min(self.budget_at, self.expires_at)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may become a task of `ability`."""

    ability: str
    max_attempts: int
    times: Times
    idempotency_key: str | None  # None: the correlation id, else the task's id
    call_path: tuple[str, ...]


def caller_of(principal: Principal) -> str:
    """The client under which a principal's tasks are kept."""
    return principal.client or (f"agent:{principal.agent_id}" if principal.agent_id else principal.name or "operator")


def admit(
    principal: Principal, known: Snapshot, request: ReachRequest, parent: Parent | None, now: dt.datetime
) -> Admitted:
    """Check one request against the namespace's snapshot.

    Raises AbilityNotAllowed, AbilityNotRegistered, NoMatch, PayloadInvalid, Invalid, CallbackUrlRefused, and Forbidden
    for an agent that names no task of its own as parent.
    """
    _check_parent(principal, request, parent)
    name = _ability_name(principal, known, request)
    ability = known.abilities.get(name)
    if ability is None:
        raise AbilityNotRegistered(f"no agent offers {name}", errors=[_unknown("/target/ability")])
    candidates = _candidates(known, ability, request)
    _check_payload(candidates, request)
    if request.session_id is None and any(one.capability.stateful for one in candidates):
        raise Invalid(_field("/sessionId", "REQUIRED", "is missing; this capability keeps state by session"))
    _check_callback(request)
    _check_substitutes(principal, request)
    attempts = min(ability.route.max_attempts, request.max_attempts or ability.route.max_attempts)
    path = parent.call_path if parent else ()
    times = _times(ability.route, candidates, request, attempts, now=now, parent=parent)
    return Admitted(name, attempts, times, _key_from_payload(name, candidates, request), path)


def _check_parent(principal: Principal, request: ReachRequest, parent: Parent | None) -> None:
    if principal.kind == "agent":
        runs_it = parent and parent.is_open and parent.state in _OPEN_AT_AGENT and parent.agent_id == principal.agent_id
        if not runs_it or parent is None or parent.namespace != principal.namespace:
            raise Forbidden("an agent may submit only children of a task that it is running: name it in parentTaskId")
    elif request.parent_id and parent is None:
        raise Invalid(_field("/parentTaskId", "UNKNOWN", "is not a task of this client"))


def _ability_name(principal: Principal, known: Snapshot, request: ReachRequest) -> str:
    """The ability that is named, or that the intent stands for among those that this client, and its pin, leave."""
    name = request.ability
    if name is None:
        allowed = [one for its, one in sorted(known.abilities.items()) if principal.may_use(its)]
        if request.agent_id is not None:
            allowed = [one for one in allowed if any(c.agent.agent_id == request.agent_id for c in one.candidates)]
        return matched(request.intent, request.tags, "auto", allowed).ability.name
    if not principal.may_use(name):
        raise AbilityNotAllowed(f"this client may not use {name}", errors=[_unknown("/target/ability", "NOT_ALLOWED")])
    return name


def _check_substitutes(principal: Principal, request: ReachRequest) -> None:
    """A substitute is no way to an ability that the client may not use."""
    for number, name in enumerate(request.value.get("fallback", {}).get("substitutes", ())):
        if not principal.may_use(name):
            at = f"/fallback/substitutes/{number}"
            raise AbilityNotAllowed(f"this client may not use {name}", errors=[_unknown(at, "NOT_ALLOWED")])


def _candidates(known: Snapshot, ability: Ability, request: ReachRequest) -> Sequence[CandidateView]:
    """All of the ability's, or the pinned agent's own."""
    if request.agent_id is None:
        return ability.candidates
    if request.agent_id not in known.agents:
        raise AbilityNotRegistered(f"there is no agent {request.agent_id}", errors=[_unknown("/target/agentId")])
    own = [one for one in ability.candidates if one.agent.agent_id == request.agent_id]
    if not own:
        message = f"{request.agent_id} does not offer {ability.name}"
        raise AbilityNotRegistered(message, errors=[_unknown("/target/ability")])
    return own


def _check_payload(candidates: Sequence[CandidateView], request: ReachRequest) -> None:
    """Refuse a payload that fits none of the candidates' input schemas; the first one's errors are told."""
    schemas = [one.capability.input for one in candidates]
    if not schemas or any(schema is None or schema.ok(request.payload) for schema in schemas):
        return
    errors = schemas[0].errors(request.payload) if schemas[0] else []
    raise PayloadInvalid([{**error, "pointer": "/payload" + error["pointer"]} for error in errors])


def _check_callback(request: ReachRequest) -> None:
    url = (request.callback or {}).get("url")
    if url is None:
        return
    try:
        check_url(url, networks(tuple(settings.REACH_OUTBOUND_ALLOW)))
    except UrlRefused as refusal:
        raise CallbackUrlRefused(str(refusal), errors=_field("/callback/url", "REFUSED", str(refusal))) from None


def _times(
    route: RouteView,
    candidates: Sequence[CandidateView],
    request: ReachRequest,
    attempts: int,
    *,
    now: dt.datetime,
    parent: Parent | None,
) -> Times:
    start = max(request.not_before or now, now)
    timeout = min(request.timeout_ms or _declared_timeout(candidates), LONGEST_TIMEOUT_MS)
    life = request.ttl_ms or timeout * attempts + _backoffs(route, request, attempts) + GRACE_MS
    expires_at = start + _ms(life)
    budget_at = now + _ms(request.budget_ms) if request.budget_ms else expires_at
    if parent and parent.is_open:
        budget_at = min(budget_at, parent.deadline_at)
    if request.not_before and start >= budget_at:
        raise Invalid(
            _field("/notBefore", "TOO_LATE", "is not before the end of the time budget; nothing could be done")
        )
    return Times(start, request.not_before, budget_at, expires_at)


def _declared_timeout(candidates: Sequence[CandidateView]) -> int:
    return max((one.agent.timeout_ms or DEFAULT_TIMEOUT_MS for one in candidates), default=DEFAULT_TIMEOUT_MS)


def _backoffs(route: RouteView, request: ReachRequest, attempts: int) -> int:
    """The longest that all waits between attempts may take together."""
    steps = route.backoff_ms or (0,)
    waits = [max(steps[min(number, len(steps) - 1)], request.backoff_ms or 0) for number in range(attempts - 1)]
    if route.jitter_share is not None:
        return round(sum(waits) * (1 + route.jitter_share))
    return sum(waits) + route.jitter_ms * len(waits)


def _key_from_payload(ability: str, candidates: Sequence[CandidateView], request: ReachRequest) -> str | None:
    """The stable key made of the payload's parts that the capability names (`idempotencyFrom`)."""
    pointers = next((one.capability.idempotency_from for one in candidates if one.capability.idempotency_from), ())
    if not pointers:
        return None
    values = [_at(request.payload, pointer) for pointer in pointers]
    return f"{ability}:{hashlib.sha256(dumps(values)).hexdigest()}"


def _at(value: Any, pointer: str) -> Any:
    """What a JSON Pointer names; None where there is nothing."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isascii() and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict):
            value = value.get(key)
        else:
            return None
    return value


def _ms(count: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=count)


def _unknown(pointer: str, code: str = "UNKNOWN") -> dict[str, str]:
    message = "may not be used by this client" if code == "NOT_ALLOWED" else "is not known here"
    return {"pointer": pointer, "code": code, "message": message}


def _field(pointer: str, code: str, message: str) -> FieldErrors:
    return [{"pointer": pointer, "code": code, "message": message}]

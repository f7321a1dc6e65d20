"""Callers that call an agent by themselves: a slot is leased to them, and what they report counts like any other call.

route:{decisionId}    JSON of the lease; kept longer than the lease lasts, so that a late outcome still counts
routed:{decisionId}   there once the outcome was reported
"""

import datetime as dt
import uuid
from collections.abc import Iterable
from typing import Any

import msgspec

from common import redis
from common.errors import NotFound, NotReady
from common.ids import time_of
from registry.principal import Principal
from registry.services import observing
from registry.services.evidence import FAILED, NEUTRAL, OK
from registry.services.observing import Observed
from routing import snapshot
from routing.breaker.counting import Call, heard
from routing.evidence import VERDICTS
from routing.filters import Seen
from routing.limits import slots
from routing.limits.slots import Slot
from routing.loads import Key
from routing.models import Attempt
from routing.states import TaskError

KEPT_S = 3600
LEASE_MS, LONGEST_MS = 30_000, 600_000
_NOT_ITS_FAULT = frozenset({TaskError.REJECTED, TaskError.AGENT_FAILED, TaskError.CANCELLED})
_TOO_LATE = "408"


class Lease(msgspec.Struct, rename="camel"):
    """Who got which slot."""

    namespace: str
    who: str
    ability: str
    agent_id: str
    instance_id: str
    client: str = ""  # as breakers name it

    def slot(self, decision_id: uuid.UUID, most: int | None = None, ability_most: int | None = None) -> Slot:
        place = (self.namespace, self.agent_id, self.instance_id)
        return Slot(f"route-{decision_id.hex}", place, (self.namespace, self.ability), most, ability_most)


_decode = msgspec.json.Decoder(Lease).decode


def running(namespace: str, keys: Iterable[Key]) -> dict[Key, int]:
    """Calls in flight at these instances and abilities over all processes, leases among them; without Redis the open
    attempts at the instances."""
    wanted = set(keys)
    counts: dict[Key, int] = dict.fromkeys(wanted, 0)
    for agent_id, instance_id in Attempt.objects.filter(
        namespace=namespace, ended_at=None, agent_id__in={key[1] for key in wanted}
    ).values_list("agent_id", "instance_id"):
        key = (namespace, agent_id, instance_id)
        if key in counts:
            counts[key] += 1
    try:
        shared = slots.count(wanted) if wanted else {}
    except redis.RedisAway:
        shared = {}
    # Whichever is behind: Redis after it came back empty, the attempts always by the leases.
    return {key: max(count, shared.get(key, 0)) for key, count in counts.items()}


def lease_ms(seen: Seen) -> int:
    """How long the slot is kept for a caller that reports nothing: as long as a call may take."""
    return min(seen.candidate.agent.timeout_ms or LEASE_MS, LONGEST_MS)


def lease(principal: Principal, decision_id: uuid.UUID, ability: str, seen: Seen) -> str | None:
    """Lease a slot; "" when it was, why not when all are taken, None while slots are not counted."""
    place = (seen.instance.agent_id, seen.instance.instance_id)
    its = Lease(seen.namespace, principal.name, ability, *place, principal.client or "")
    declared = seen.instance.max_concurrency is not None
    slot = its.slot(decision_id, seen.most if declared else None, seen.route.limits.get("maxInflight"))
    try:
        taken = slots.take([slot], ms=lease_ms(seen))
        if taken is not None and taken.refused[0]:
            return taken.refused[0]
        _remember(decision_id, its)
    except redis.RedisAway:
        return None
    return None if taken is None else ""


def outcome(
    principal: Principal,
    namespace: str,
    decision_id: uuid.UUID,
    ok: bool,
    ms: float | None,
    code: str,
    now: dt.datetime,
) -> bool:
    """Give the slot back and note the call; False when it was reported before.

    Raises NotFound where this caller got no such lease within the hour, and NotReady while Redis is away.
    """
    try:
        its = _recalled(decision_id)
        if its is None or (its.namespace, its.who) != (namespace, principal.name):
            raise NotFound
        first = redis.call(lambda client: client.set(redis.key("routed", decision_id.hex), 1, nx=True, ex=KEPT_S))
        slots.end([its.slot(decision_id)])
    except redis.RedisAway:
        raise NotReady from None
    if first:
        key, result = (its.namespace, its.agent_id, its.instance_id), _result(ok, code)
        observing.observed([Observed(key, result, ms if ok else None, "" if ok else code, now)], (), now)
        heard(_call(its, decision_id), VERDICTS.get(result), now, its.client)
    return bool(first)


def _call(its: Lease, decision_id: uuid.UUID) -> Call:
    """The call as breakers see it; it began when the address was given."""
    known = snapshot.current(its.namespace)
    ability, agent = known.abilities.get(its.ability), known.agents.get(its.agent_id)
    return Call(
        its.namespace, its.agent_id, its.instance_id, its.ability, its.client, decision_id, time_of(decision_id),
        agent is not None and agent.external, ability.route.breaker if ability else {},
    )  # fmt: skip


def _result(ok: bool, code: str) -> str:
    if ok:
        return OK
    is_refusal = len(code) == 3 and code.startswith("4") and code != _TOO_LATE
    return NEUTRAL if is_refusal or code in _NOT_ITS_FAULT else FAILED


def _remember(decision_id: uuid.UUID, its: Lease) -> None:
    key, value = redis.key("route", decision_id.hex), msgspec.json.encode(its)
    redis.call(lambda client: client.set(key, value, ex=KEPT_S))


def _recalled(decision_id: uuid.UUID) -> Lease | None:
    raw: Any = redis.call(lambda client: client.get(redis.key("route", decision_id.hex)))
    return _decode(raw) if raw else None

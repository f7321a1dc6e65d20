"""What can be asked for, and who would get a task, without sending anything."""

import random
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from common.clock import now
from common.errors import AbilityNotAllowed, AbilityNotRegistered, Invalid, NotFound
from common.ids import parse_id, uuid7
from registry.api.parsing import json_object, text_parameter
from registry.permissions import HasScope, namespace_of, principal_of
from registry.principal import Principal
from registry.selectors import namespace_version
from registry.states import ROUTABLE
from routing import breaker, snapshot
from routing.api import bodies, described
from routing.api.reading import json_answer
from routing.ask import Ask
from routing.choice import Choice, NoChoice, ability_busy, choose
from routing.filters import Seen
from routing.layout import layout_of
from routing.limits.slots import ABILITY_BUSY
from routing.loads import Key, Loads
from routing.matching import Match, has_tags, matched
from routing.services import route_leases
from routing.snapshot import Ability, CandidateView, Snapshot

UNHURRIED_MS = 86_400_000  # nobody said how long it may take


class AbilitiesView(APIView):
    permission_classes = [HasScope("catalog:read")]

    @described.ABILITIES
    def get(self, request: Request) -> HttpResponse:
        principal, known = principal_of(request), _fresh(namespace_of(request))
        tag = text_parameter(request, "tag")
        found = [
            _ability(one)
            for name, one in sorted(known.abilities.items())
            if principal.may_use(name) and (tag is None or has_tags(one, {tag}))
        ]
        return json_answer({"items": found, "nextCursor": None})


class ChooseView(APIView):
    permission_classes = [HasScope("route", "tasks:write")]

    @described.CHOOSE
    def post(self, request: Request) -> HttpResponse:
        body, principal = json_object(request, bodies.choose), principal_of(request)
        namespace = namespace_of(request, body.get("namespace"))
        matched = _matched(principal, _fresh(namespace), body)
        # Operators ask in order to know: that takes no slot from anybody.
        return json_answer(_answer(principal, namespace, matched, body, leased="route:endpoint" in principal.scopes))


class OutcomeView(APIView):
    permission_classes = [HasScope("route:endpoint")]

    @described.OUTCOME
    def post(self, request: Request, decision_id: str) -> HttpResponse:
        body, principal = json_object(request, bodies.outcome), principal_of(request)
        namespace, made = namespace_of(request), parse_id(decision_id)
        ok, ms, code = body["ok"], body.get("latencyMs"), body.get("code") or ""
        if made is None:
            raise NotFound
        counted = route_leases.outcome(principal, namespace, made, ok, ms, code, now())
        return json_answer({"decisionId": made, "counted": counted})


def explained(principal: Principal, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    """Who would get it, with every instance and why not it; takes no slot. `body` is as POST /v1/route takes it.

    Raises Invalid, AbilityNotAllowed, AbilityNotRegistered and NoMatch.
    """
    if errors := bodies.choose.errors(body):
        raise Invalid(errors)
    matched = _matched(principal, _fresh(namespace), body)
    return _answer(principal, namespace, matched, {**body, "explain": True}, leased=False)


def _matched(principal: Principal, known: Snapshot, body: dict[str, Any]) -> Match:
    """The ability that is asked about; raises AbilityNotAllowed, AbilityNotRegistered and NoMatch."""
    name, intent, tags = body.get("ability"), body.get("intent"), body.get("tags", [])
    if name is not None:
        if not principal.may_use(name):
            raise AbilityNotAllowed(f"this client may not use {name}")
        if name not in known.abilities:
            raise AbilityNotRegistered(f"no agent offers {name}")
        return Match(known.abilities[name], "tag" if body.get("mode") == "tag" and tags else "exact")
    allowed = [one for its_name, one in sorted(known.abilities.items()) if principal.may_use(its_name)]
    return matched(intent, tags, body.get("mode", "auto"), allowed)


def _answer(
    principal: Principal, namespace: str, matched: Match, body: dict[str, Any], *, leased: bool
) -> dict[str, Any]:
    moment = now()
    barred = breaker.barred(
        breaker.view().open(namespace), namespace, matched.ability, principal.client or "", moment.timestamp()
    )
    ask = Ask(
        namespace=namespace,
        ability=matched.ability.name,
        task_id=uuid7(),
        left_ms=UNHURRIED_MS,
        session_id=body.get("sessionId"),
        tags=tuple(body.get("tags", ())),
        network=body.get("network"),
        direct=leased,
        now=moment,
        barred=barred,
    )
    found, holds = _chosen(principal, matched.ability, ask, leased=leased)
    choice, decision = found if isinstance(found, Choice) else None, found.decision
    document: dict[str, Any] = {
        "matchedAgent": choice.instance.agent_id if choice else None,
        "instanceId": choice.instance.instance_id if choice else None,
        "ability": matched.ability.name,
        "matchType": matched.kind,
        "score": choice.instance.vitals.score_by(choice.route.score_weights) if choice else None,
        "confidence": matched.confidence,
        "schemaHint": _hint(choice.candidate) if choice else None,
        "alternatives": _alternatives(decision, choice),
        "decisionId": ask.task_id,
    }
    if leased:
        document["endpoint"] = choice.instance.address_in(ask.network) if choice else None
        document["leaseMs"] = route_leases.lease_ms(choice.seen) if choice and holds else None
    return {**document, "decision": decision} if body.get("explain") else document


def _chosen(principal: Principal, ability: Ability, ask: Ask, *, leased: bool) -> tuple[Choice | NoChoice, bool]:
    """Who it is, and whether a slot is leased there: one that others took meanwhile is passed over."""
    loads = Loads()
    places = (*layout_of(ability, ask.namespace).keys, (ask.namespace, ability.name))
    for key, running in route_leases.running(ask.namespace, places).items():
        loads.acquire([key] * running)
    while True:
        found = ability_busy(ability, ask.namespace, loads) or choose(ability, ask, loads, random.random)
        if not leased or isinstance(found, NoChoice):
            return found, False
        refused = route_leases.lease(principal, ask.task_id, ability.name, found.seen)
        if not refused:
            return found, refused is not None
        # Others were faster. What is full counts as such from here on, so that this comes to an end.
        full, most = _full(refused, ability, found.seen)
        loads.acquire([full] * most)


def _full(refused: str, ability: Ability, seen: Seen) -> tuple[Key, int]:
    """What has no slot left, and how many it has at the most."""
    if refused == ABILITY_BUSY:
        return (seen.namespace, ability.name), ability.route.limits["maxInflight"]
    return seen.key, seen.most


def _alternatives(decision: dict[str, Any], choice: Choice | None) -> list[dict[str, Any]]:
    """Who else could, the best first."""
    able = [one for one in decision["candidates"] if one["rejected"] is None]
    others = [one for one in able if not (choice and (one["agentId"], one["instanceId"]) == choice.instance.key)]
    others.sort(key=lambda one: -one["score"])
    return [{name: one[name] for name in ("agentId", "instanceId", "score")} for one in others]


def _hint(candidate: CandidateView) -> dict[str, Any]:
    its = candidate.capability
    return {
        "action": its.name,
        "method": its.method,
        "path": its.path,
        "requestSample": its.request_sample,
        "inputSchema": its.input_schema,
    }


def _ability(ability: Ability) -> dict[str, Any]:
    agents = {one.agent.agent_id: one for one in ability.candidates}
    return {
        "ability": ability.name,
        "route": "explicit" if ability.explicit else "implicit",
        "strategy": ability.route.strategy,
        "agents": [
            {"agentId": agent_id, "capability": one.capability.name, "weight": one.weight}
            for agent_id, one in agents.items()
        ],
        "available": any(instance.state in ROUTABLE for one in ability.candidates for instance in one.agent.instances),
    }


def _fresh(namespace: str) -> Snapshot:
    return snapshot.at_least(namespace, namespace_version(namespace))

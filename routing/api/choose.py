"""What can be asked for, and who would get a task, without sending anything."""

import random
import time
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from common.errors import AbilityNotAllowed, AbilityNotRegistered, NoMatch
from common.ids import uuid7
from registry.api.parsing import json_object, text_parameter
from registry.permissions import HasScope, namespace_of, principal_of
from registry.selectors import namespace_version
from registry.states import ROUTABLE
from routing import breaker, snapshot
from routing.api import bodies, described
from routing.api.reading import json_answer
from routing.ask import Ask
from routing.choice import Choice, choose
from routing.loads import Loads
from routing.models import Attempt
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
            if principal.may_use(name) and (tag is None or any(tag in c.agent.tags for c in one.candidates))
        ]
        return json_answer({"items": found, "nextCursor": None})


class ChooseView(APIView):
    permission_classes = [HasScope("route", "tasks:write")]

    @described.CHOOSE
    def post(self, request: Request) -> HttpResponse:
        body, principal = json_object(request, bodies.choose), principal_of(request)
        namespace = namespace_of(request, body.get("namespace"))
        name = body.get("ability")
        if name is None:
            raise NoMatch("routing by intent is not available yet; name an ability", extra={"suggestions": []})
        if not principal.may_use(name):
            raise AbilityNotAllowed(f"this client may not use {name}")
        ability = _fresh(namespace).abilities.get(name)
        if ability is None:
            raise AbilityNotRegistered(f"no agent offers {name}")
        return json_answer(_chosen(ability, namespace, body, principal.client or ""))


def _chosen(ability: Ability, namespace: str, body: dict[str, Any], client: str) -> dict[str, Any]:
    decision_id = uuid7()
    ask = Ask(
        namespace=namespace,
        ability=ability.name,
        task_id=decision_id,
        left_ms=UNHURRIED_MS,
        session_id=body.get("sessionId"),
        tags=tuple(body.get("tags", ())),
        barred=breaker.barred(breaker.view().open(namespace), namespace, ability, client, time.time()),
    )
    found = choose(ability, ask, _loads(namespace), random.random)
    chosen = found if isinstance(found, Choice) else None
    decision = found.decision
    document = {
        "matchedAgent": chosen.instance.agent_id if chosen else None,
        "instanceId": chosen.instance.instance_id if chosen else None,
        "ability": ability.name,
        "matchType": "exact",
        "score": None,
        "confidence": 1.0,
        "schemaHint": _hint(chosen.candidate) if chosen else None,
        "alternatives": [
            {"agentId": one["agentId"], "instanceId": one["instanceId"]}
            for one in decision["candidates"]
            if one["rejected"] is None and not (chosen and _is(one, chosen))
        ],
        "decisionId": decision_id,
    }
    return {**document, "decision": decision} if body.get("explain") else document


def _is(shown: dict[str, Any], chosen: Choice) -> bool:
    return (shown["agentId"], shown["instanceId"]) == chosen.instance.key


def _hint(candidate: CandidateView) -> dict[str, Any]:
    capability = candidate.capability
    return {"action": capability.name, "method": capability.method, "path": capability.path}


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


def _loads(namespace: str) -> Loads:
    """Calls in flight by every process: the open attempts."""
    loads = Loads()
    for agent_id, instance_id in Attempt.objects.filter(namespace=namespace, ended_at=None).values_list(
        "agent_id", "instance_id"
    ):
        loads.acquire([(namespace, agent_id, instance_id)])
    return loads

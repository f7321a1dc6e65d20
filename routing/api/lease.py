"""Agents that fetch their tasks themselves."""

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from common.errors import NotFound, StateConflict
from registry.api.parsing import json_object, refuse_misspelt_query
from registry.permissions import HasScope, namespace_of, require_agent
from registry.selectors import namespace_version
from routing import snapshot
from routing.api import bodies, described
from routing.api.reading import json_answer, number_of
from routing.channel_choice import pulls
from routing.leasing import WaitForWork
from routing.services.lease import Fetcher

LONGEST_S = 30
USUAL_S = 20


class LeaseView(APIView):
    permission_classes = [HasScope("agent:work")]

    @described.LEASE
    def post(self, request: Request, agent_id: str) -> HttpResponse:
        require_agent(request, agent_id)
        namespace = namespace_of(request)
        refuse_misspelt_query(request, ("wait",))
        seconds = number_of(request.query_params, "wait", USUAL_S, 0, LONGEST_S)
        body = json_object(request, bodies.lease)
        _check(namespace, agent_id, body["instanceId"])
        response = json_answer({"tasks": []})
        fetcher = Fetcher(namespace, agent_id, body["instanceId"])
        response.hand_off = WaitForWork(fetcher, body.get("max", 1), seconds)  # type: ignore[attr-defined]
        return response


def _check(namespace: str, agent_id: str, instance_id: str) -> None:
    """Raises NotFound for an agent or instance that is not registered, StateConflict for one that is pushed only."""
    agent = snapshot.at_least(namespace, namespace_version(namespace)).agents.get(agent_id)
    if agent is None or all(one.instance_id != instance_id for one in agent.instances):
        raise NotFound
    if not pulls(agent):
        raise StateConflict("the agent's manifest does not list the channel pull")

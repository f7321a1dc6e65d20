"""Instances: registered, heard, gone."""

from rest_framework.request import Request
from rest_framework.response import Response

from common.clock import now
from registry import bodies, documents
from registry.api.parsing import json_object
from registry.api.view import STRING, RegistryView, answer, described
from registry.health import HEARTBEAT_INTERVAL_MS
from registry.permissions import namespace_of, require_agent
from registry.services import heartbeats, instances

WORK = ("agent:register", "agent:work")
REGISTERED = answer(
    {"agentId": STRING, "instanceId": STRING, "state": STRING, "heartbeatIntervalMs": {"type": "integer"}}
)
HEARD = answer({
    "state": STRING, "score": {"type": "number"}, "nextHeartbeatMs": {"type": "integer"},
    "registered": {"type": "boolean"},
}, "Heard")  # fmt: skip


class Instance(RegistryView):
    scopes = {"PUT": WORK, "DELETE": WORK}

    @described(
        "Register a running copy of an agent, or say again what it is",
        "putInstance",
        request=bodies.INSTANCE,
        answers={201: REGISTERED, 200: REGISTERED},
        writes=True,
    )
    def put(self, request: Request, agent_id: str, instance_id: str) -> Response:
        require_agent(request, agent_id)
        namespace = namespace_of(request)
        body = json_object(request, bodies.instance)
        row, new = instances.put(namespace, agent_id, instance_id, body, now=now(), **self.author())
        shown = {
            "agentId": agent_id,
            **documents.instance_document(row, private=True),
            "heartbeatIntervalMs": HEARTBEAT_INTERVAL_MS,
            "registered": True,
        }
        return Response(shown, status=201 if new else 200)

    @described("Take an instance out at once", "deleteInstance", answers={204: None}, writes=True)
    def delete(self, request: Request, agent_id: str, instance_id: str) -> Response:
        require_agent(request, agent_id)
        instances.leave(namespace_of(request), agent_id, instance_id, now=now(), **self.author())
        return Response(status=204)


class Heartbeat(RegistryView):
    scopes = {"POST": WORK}

    @described(
        "Say that an instance is alive, and how it is; registered: false asks for a new PUT",
        "heartbeat",
        request=bodies.HEARTBEAT,
        answers={200: HEARD},
        writes=True,
    )
    def post(self, request: Request, agent_id: str, instance_id: str) -> Response:
        require_agent(request, agent_id)
        body = json_object(request, bodies.heartbeat, may_be_empty=True)
        heard = heartbeats.heartbeat(namespace_of(request), agent_id, instance_id, body, now=now())
        return Response({
            "state": heard.state,
            "score": heard.score,
            "nextHeartbeatMs": HEARTBEAT_INTERVAL_MS,
            "registered": heard.registered,
        })  # fmt: skip

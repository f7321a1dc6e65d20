"""Namespaces, clients, agents' credentials and people: what operators set up (scope admin)."""

from rest_framework.request import Request
from rest_framework.response import Response

from common.clock import now
from registry import bodies, queries
from registry.api.pages import cursor_of, page
from registry.api.parsing import json_object, limit_of
from registry.api.view import STRING, TIME, RegistryView, answer, described, listing
from registry.permissions import namespace_of
from registry.services import clients, credentials, namespaces, users

KEYS = {"key": STRING, "accessKey": STRING, "secretKey": STRING}
CLIENT = answer({
    "name": STRING, "namespace": STRING, "scopes": {"type": "array", "items": STRING},
    "abilities": {"type": "array", "items": STRING}, "limits": {"type": "object"}, "callbackSchedule": STRING,
    "enabled": {"type": "boolean"}, "createdAt": TIME,
}, "Client")  # fmt: skip
NEW_CLIENT = answer({**CLIENT["properties"], **KEYS, "callbackSecret": STRING}, "NewClient")
ADMIN = ("admin",)


class Namespaces(RegistryView):
    scopes = {"POST": ADMIN}

    @described(
        "Make a namespace; 200 when it is there already",
        "createNamespace",
        request=bodies.NAMESPACE,
        answers={201: answer({"name": STRING}), 200: answer({"name": STRING})},
        writes=True,
        tag="setup",
    )
    def post(self, request: Request) -> Response:
        body = json_object(request, bodies.namespace)
        settings = {"retentionDays": body["retentionDays"]} if "retentionDays" in body else {}
        made = namespaces.create(body["name"], settings=settings, now=now(), **self.author())
        return Response({"name": body["name"]}, status=201 if made else 200)


class Clients(RegistryView):
    scopes = {"GET": ADMIN, "POST": ADMIN}

    @described("Clients by name", "listClients", answers={200: listing(CLIENT)}, query=("limit", "cursor"), tag="setup")
    def get(self, request: Request) -> Response:
        limit = limit_of(request)
        rows = list(queries.clients(namespace_of(request), after=cursor_of(request))[: limit + 1])
        scopes = queries.newest_scopes(rows)
        show = [(row, clients.describe(row, scopes.get(row.pk, []))) for row in rows]
        return Response(page(show, limit, lambda pair: pair[0].name, lambda pair: pair[1]))

    @described(
        "Make a client; its keys are shown this once",
        "createClient",
        request=bodies.CLIENT,
        answers={201: NEW_CLIENT},
        writes=True,
        tag="setup",
    )
    def post(self, request: Request) -> Response:
        body = json_object(request, bodies.client)
        made = clients.create(
            namespace_of(request, body.get("namespace")),
            body["name"],
            scopes=body.get("scopes"),
            abilities=body.get("abilities"),
            limits=body.get("limits"),
            callback_schedule=body.get("callbackSchedule", "standard"),
            now=now(),
            **self.author(),
        )
        return Response(made.document(), status=201)


class RotateClient(RegistryView):
    scopes = {"POST": ADMIN}

    @described(
        "Give a client new keys; the old ones stay good for overlapSeconds (a day)",
        "rotateClient",
        request=bodies.ROTATE,
        answers={200: NEW_CLIENT},
        writes=True,
        tag="setup",
    )
    def post(self, request: Request, name: str) -> Response:
        body = json_object(request, bodies.rotate, may_be_empty=True)
        overlap = body.get("overlapSeconds", clients.DEFAULT_OVERLAP_S)
        namespace = namespace_of(request, body.get("namespace"))
        made = clients.rotate(namespace, name, overlap_seconds=overlap, now=now(), **self.author())
        return Response(made.document())


class AgentCredentials(RegistryView):
    scopes = {"POST": ADMIN}

    @described(
        "Give an agent a key, shown this once; the agent need not be registered yet",
        "createAgentCredential",
        request=bodies.AGENT_CREDENTIAL,
        answers={201: answer({"agentId": STRING, "namespace": STRING, **KEYS}, "AgentCredential")},
        writes=True,
        tag="setup",
    )
    def post(self, request: Request, agent_id: str) -> Response:
        body = json_object(request, bodies.agent_credential, may_be_empty=True)
        namespace = namespace_of(request, body.get("namespace"))
        issued = credentials.for_agent(
            namespace, agent_id, overlap_seconds=body.get("overlapSeconds"), now=now(), **self.author()
        )
        return Response({"agentId": agent_id, "namespace": namespace, **issued.document()}, status=201)


class Users(RegistryView):
    scopes = {"POST": ADMIN}

    @described(
        "Make an account (its password is shown this once), or change its role, team and namespaces",
        "putUser",
        request=bodies.USER,
        answers={201: answer({"user": STRING, "role": STRING, "password": STRING}), 200: answer({"user": STRING})},
        writes=True,
        tag="setup",
    )
    def post(self, request: Request) -> Response:
        body = json_object(request, bodies.user)
        member = users.put(
            body["user"],
            role=body["role"],
            team=body.get("team", ""),
            namespaces=body.get("namespaces"),
            now=now(),
            **self.author(),
        )
        shown = {"user": member.user, "role": member.role, "team": member.team, "namespaces": member.namespaces}
        if member.password is None:
            return Response(shown)
        return Response({**shown, "password": member.password}, status=201)

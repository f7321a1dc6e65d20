"""Agents: their manifests, revisions, maintenance, secrets and health."""

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from common.clock import now, rfc3339
from common.errors import BadRequest, NotFound
from registry import bodies, documents, queries
from registry.api.pages import cursor_of, number_of, page
from registry.api.parsing import JSON_TYPES, YAML_TYPES, flag, json_object, limit_of, read_body, text_parameter
from registry.api.view import OBJECT, READ_AGENTS, STRING, TIME, RegistryView, answer, described, listing
from registry.manifest_schema import MANIFEST
from registry.permissions import namespace_of, principal_of, require_agent
from registry.services import manifests, scoring
from registry.services.manifests import Registered
from registry.states import InstanceState

REGISTER = ("agent:register",)
WARNING = answer({"pointer": STRING, "code": STRING, "message": STRING})
REGISTERED = answer({
    "agentId": STRING, "revision": {"type": "integer"}, "changed": {"type": "boolean"},
    "warnings": {"type": "array", "items": WARNING},
}, "Registered")  # fmt: skip
HEALTH = answer({"agentId": STRING, "registeredAt": TIME, "instances": {"type": "array", "items": OBJECT}}, "Health")
AGENT = answer({"agentId": STRING, "owner": STRING, "version": STRING, "revision": {"type": "integer"}}, "Agent")


def is_private(request: Request) -> bool:
    """Whether addresses and adapters may be shown: to the agent itself and to operators."""
    return principal_of(request).kind != "client"


def registered(result: Registered) -> Response:
    shown: dict[str, Any] = {
        "agentId": result.agent_id,
        "revision": result.revision,
        "changed": result.changed,
        "warnings": result.warnings,
    }
    return Response(shown, status=201 if result.created else 200)


class Agents(RegistryView):
    scopes = {"GET": ("catalog:read",)}

    @described("Agents by id", "listAgents", answers={200: listing(AGENT)}, query=("tag", "state", "limit", "cursor"))
    def get(self, request: Request) -> Response:
        state = text_parameter(request, "state")
        if state is not None and state not in InstanceState.values:
            raise BadRequest(f"state must be one of {', '.join(InstanceState.values)}")
        rows = queries.agents(
            namespace_of(request), tag=text_parameter(request, "tag"), state=state, after=cursor_of(request)
        )
        limit = limit_of(request)
        return Response(page(rows[: limit + 1], limit, lambda row: row.agent_id, documents.agent_summary))


class Agent(RegistryView):
    scopes = {"GET": READ_AGENTS, "PUT": REGISTER, "DELETE": REGISTER}

    @described("An agent with its manifest and instances", "getAgent", answers={200: AGENT})
    def get(self, request: Request, agent_id: str) -> Response:
        require_agent(request, agent_id)
        found = queries.agent(namespace_of(request), agent_id)
        return Response(documents.agent_document(found, queries.instances(found), private=is_private(request)))

    @described(
        "Register an agent by its manifest; the same content again changes nothing",
        "putAgent",
        request=MANIFEST,
        media_types=("application/json", "application/yaml"),
        answers={201: REGISTERED, 200: REGISTERED},
        query=("strict",),
        writes=True,
    )
    def put(self, request: Request, agent_id: str) -> Response:
        require_agent(request, agent_id)
        namespace = namespace_of(request)
        raw, media_type = read_body(request, JSON_TYPES | YAML_TYPES)
        strict = flag(request, "strict")
        result = manifests.put(namespace, agent_id, raw, media_type, strict=strict, now=now(), **self.author())
        return registered(result)

    @described("Take an agent out; its revisions are kept", "deleteAgent", answers={204: None}, writes=True)
    def delete(self, request: Request, agent_id: str) -> Response:
        require_agent(request, agent_id)
        manifests.delete(namespace_of(request), agent_id, now=now(), **self.author())
        return Response(status=204)


class Revisions(RegistryView):
    scopes = {"GET": READ_AGENTS}

    @described("Every revision of a manifest, newest first", "listRevisions", answers={200: listing(OBJECT)},
               query=("limit", "cursor"))  # fmt: skip
    def get(self, request: Request, agent_id: str) -> Response:
        require_agent(request, agent_id)
        _only_private(request)
        rows = queries.revisions(queries.agent(namespace_of(request), agent_id), before=number_of(cursor_of(request)))
        limit = limit_of(request)
        return Response(page(rows[: limit + 1], limit, lambda row: row.number, documents.revision_document))


class RevisionDiff(RegistryView):
    scopes = {"GET": READ_AGENTS}

    @described(
        "What changed from one revision to another (default: the current one)",
        "diffRevision",
        answers={200: answer({"from": {"type": "integer"}, "to": {"type": "integer"}, "text": STRING})},
        query=("to",),
    )
    def get(self, request: Request, agent_id: str, number: int) -> Response:
        require_agent(request, agent_id)
        _only_private(request)
        return Response(manifests.diff(namespace_of(request), agent_id, number, _to(request)))


class RestoreRevision(RegistryView):
    scopes = {"POST": REGISTER}

    @described(
        "Make an earlier revision's content the newest one", "restoreRevision", answers={200: REGISTERED}, writes=True
    )
    def post(self, request: Request, agent_id: str, number: int) -> Response:
        require_agent(request, agent_id)
        namespace = namespace_of(request)
        return registered(manifests.restore(namespace, agent_id, number, now=now(), **self.author()))


class Maintenance(RegistryView):
    scopes = {"POST": REGISTER}

    @described(
        "Begin or end maintenance: running tasks finish, no new ones come",
        "setMaintenance",
        request=bodies.MAINTENANCE,
        answers={200: answer({"agentId": STRING, "maintenance": {"type": "boolean"}})},
        writes=True,
    )
    def post(self, request: Request, agent_id: str) -> Response:
        require_agent(request, agent_id)
        namespace = namespace_of(request)
        on = json_object(request, bodies.maintenance)["on"]
        agent = manifests.maintenance(namespace, agent_id, on, now=now(), **self.author())
        return Response({"agentId": agent_id, "maintenance": agent.maintenance})


class Secrets(RegistryView):
    scopes = {"PUT": REGISTER}

    @described(
        "Set secrets that the manifest's headers may name as ${secret:name}; null removes one; they are never shown",
        "putSecrets",
        request=bodies.SECRETS,
        answers={200: answer({"agentId": STRING, "names": {"type": "array", "items": STRING}})},
        writes=True,
    )
    def put(self, request: Request, agent_id: str) -> Response:
        require_agent(request, agent_id)
        namespace = namespace_of(request)
        names = manifests.put_secrets(
            namespace, agent_id, json_object(request, bodies.secrets), now=now(), **self.author()
        )
        return Response({"agentId": agent_id, "names": names})


class Health(RegistryView):
    """The registry knows no breakers: whoever mounts this view gives it `breakers`."""

    scopes = {"GET": READ_AGENTS}

    @staticmethod
    def breakers(namespace: str, agent_id: str, client: str | None) -> Callable[[str], dict[str, Any]]:
        """What tells an instance's breaker by its id, as routing knows it; with `client` none of other clients'."""
        raise NotImplementedError

    @described(
        "How each instance is, why, and since when",
        "getHealth",
        answers={200: HEALTH},
    )
    def get(self, request: Request, agent_id: str) -> Response:
        require_agent(request, agent_id)
        found = queries.agent(namespace_of(request), agent_id)
        rows = list(queries.instances(found, left=True))
        changes = queries.newest_changes(rows)
        shown, principal = scoring.shown(found, rows, now()), principal_of(request)
        client = principal.client if principal.kind == "client" else None
        breakers = self.breakers(found.namespace_id, agent_id, client)
        return Response({
            "agentId": agent_id,
            "maintenance": found.maintenance,
            "registeredAt": rfc3339(found.created_at),
            "drift": documents.drift_document(shown.values()),
            "instances": [
                documents.health_document(one, changes.get(one.pk, []), shown[one.pk], breakers(one.instance_id))
                for one in rows
            ],
        })  # fmt: skip


def _only_private(request: Request) -> None:
    if not is_private(request):
        raise NotFound


def _to(request: Request) -> int | None:
    text = request.query_params.get("to")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest("to must be a revision's number")
    return int(text)

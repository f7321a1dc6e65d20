"""Hooks: whom to tell when an agent's state or resources change (scope admin)."""

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from common import json
from common.clock import now, rfc3339
from common.errors import BadRequest
from registry import bodies, queries
from registry.api.pages import cursor_of, id_of, page
from registry.api.parsing import json_object, limit_of, text_parameter
from registry.api.view import OBJECT, STRING, TIME, RegistryView, answer, described, listing
from registry.hooks.messages import message_id
from registry.models import HookFiring
from registry.permissions import namespace_of
from registry.services import hooks
from registry.states import FiringState

ADMIN = ("admin",)
MAYBE = {"type": ["string", "null"]}
HOOK = answer({
    "hookId": STRING, "namespace": STRING, "agentId": MAYBE, "events": {"type": "array", "items": STRING},
    "url": MAYBE, "command": MAYBE, "createdAt": TIME, "createdBy": STRING, "failingSince": TIME, "lastError": MAYBE,
    "stoppedAt": TIME,
}, "Hook")  # fmt: skip
NEW_HOOK = answer({**HOOK["properties"], "secret": STRING}, "NewHook")
TRY = answer({
    "number": {"type": "integer"}, "at": TIME, "status": {"type": ["integer", "null"]}, "error": MAYBE,
    "tookMs": {"type": "integer"},
})  # fmt: skip
FIRING = answer({
    "firingId": STRING, "webhookId": STRING, "event": STRING, "state": STRING, "attempts": {"type": "integer"},
    "nextAttemptAt": TIME, "lastError": MAYBE, "createdAt": TIME, "endedAt": TIME,
    "tries": {"type": "array", "items": TRY}, "message": OBJECT,
}, "HookFiring")  # fmt: skip


class Hooks(RegistryView):
    scopes = {"GET": ADMIN, "POST": ADMIN}

    @described(
        "Hooks of the namespace, newest first",
        "listHooks",
        answers={200: listing(HOOK)},
        query=("agentId", "limit", "cursor"),
        tag="hooks",
    )
    def get(self, request: Request) -> Response:
        limit = limit_of(request)
        rows = queries.hooks(
            namespace_of(request), agent_id=text_parameter(request, "agentId"), before=id_of(cursor_of(request))
        )
        return Response(page(rows[: limit + 1], limit, lambda hook: hook.pk, hooks.describe))

    @described(
        "Tell a URL, or run a command of the operator's, when states, resources or alerts change. "
        "The secret that signs is shown this once",
        "createHook",
        request=bodies.HOOK,
        answers={201: NEW_HOOK},
        writes=True,
        tag="hooks",
    )
    def post(self, request: Request) -> Response:
        body = json_object(request, bodies.hook)
        made = hooks.create(
            namespace_of(request),
            events=body["events"],
            agent_id=body.get("agentId"),
            url=body.get("url") or "",
            command=body.get("command") or "",
            now=now(),
            **self.author(),
        )
        return Response(made.document(), status=201, headers={"Location": f"/v1/hooks/{made.hook.pk}"})


class OneHook(RegistryView):
    scopes = {"GET": ADMIN, "DELETE": ADMIN}

    @described("A hook, and how it does", "getHook", answers={200: HOOK}, tag="hooks")
    def get(self, request: Request, hook_id: uuid.UUID) -> Response:
        return Response(hooks.describe(queries.hook(namespace_of(request), hook_id)))

    @described("Remove a hook and its firings", "deleteHook", answers={204: None}, writes=True, tag="hooks")
    def delete(self, request: Request, hook_id: uuid.UUID) -> Response:
        hooks.remove(namespace_of(request), hook_id, now=now(), **self.author())
        return Response(status=204)


class RotateHook(RegistryView):
    scopes = {"POST": ADMIN}

    @described(
        "Give a hook a new secret; the old one signs too for overlapSeconds (a day)",
        "rotateHook",
        request=bodies.ROTATE,
        answers={200: NEW_HOOK},
        writes=True,
        tag="hooks",
    )
    def post(self, request: Request, hook_id: uuid.UUID) -> Response:
        body = json_object(request, bodies.rotate, may_be_empty=True)
        overlap = body.get("overlapSeconds", hooks.DEFAULT_OVERLAP_S)
        namespace = namespace_of(request, body.get("namespace"))
        made = hooks.rotate(namespace, hook_id, overlap_seconds=overlap, now=now(), **self.author())
        return Response(made.document())


class TestHook(RegistryView):
    __test__ = False  # no test of pytest's
    scopes = {"POST": ADMIN}

    @described(
        "Tell the hook of nothing, once; look at its firings for how that went. A stopped hook goes on if it went well",
        "testHook",
        answers={202: FIRING},
        writes=True,
        tag="hooks",
    )
    def post(self, request: Request, hook_id: uuid.UUID) -> Response:
        return Response(
            _firing(hooks.send_test(namespace_of(request), hook_id, now=now(), **self.author())), status=202
        )


class Firings(RegistryView):
    scopes = {"GET": ADMIN}

    @described(
        "What the hook had to tell, newest first, and every try of it",
        "listFirings",
        answers={200: listing(FIRING)},
        query=("state", "limit", "cursor"),
        tag="hooks",
    )
    def get(self, request: Request, hook_id: uuid.UUID) -> Response:
        limit, state = limit_of(request), text_parameter(request, "state")
        if state is not None and state not in FiringState.values:
            raise BadRequest(f"state must be one of {', '.join(FiringState.values)}")
        rows = queries.firings(
            queries.hook(namespace_of(request), hook_id), state=state, before=id_of(cursor_of(request))
        )
        return Response(page(rows[: limit + 1], limit, lambda firing: firing.pk, _firing))


def _firing(firing: HookFiring) -> dict[str, Any]:
    return {
        "firingId": str(firing.pk),
        "webhookId": message_id(firing.pk),
        "event": firing.event,
        "state": str(firing.state),
        "attempts": firing.attempts,
        "nextAttemptAt": rfc3339(firing.due_at),
        "lastError": firing.last_error or None,
        "createdAt": rfc3339(firing.created_at),
        "endedAt": rfc3339(firing.ended_at),
        "tries": firing.tries,
        "message": json.parse(bytes(firing.body)),
    }

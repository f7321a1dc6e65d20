"""Bulk actions over the API: a client's on its own tasks, an operator's on all of the namespace."""

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from callbacks.models import CallbackState
from common.clock import now, parse_time, rfc3339
from common.errors import Invalid, NotFound
from common.schema import Validator
from insight.models import Bulk
from insight.services import bulk
from registry.api.parsing import json_object
from registry.api.view import OBJECT, STRING, TIME, RegistryView, answer, described
from registry.permissions import namespace_of, principal_of
from routing.request_schema import UUID
from routing.states import TaskError, TaskState

_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
_REQUEST = {
    "type": "object",
    "required": ["action", "filter"],
    "additionalProperties": False,
    "properties": {
        "action": {"enum": Bulk.Action.values},
        "dryRun": {"type": "boolean"},
        "filter": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                "state": {"enum": TaskState.values},
                "errorCode": {"enum": TaskError.values},
                "callbackState": {"enum": [CallbackState.DEAD, CallbackState.DELIVERED]},
                "taskIds": {"type": "array", "maxItems": 1000, "items": {"type": "string", "pattern": UUID}},
                **dict.fromkeys(("ability", "agentId", "client", "correlationId", "traceId"), _NAME),
                **dict.fromkeys(("createdAfter", "createdBefore"), _NAME),
            },
        },
    },
}
_VALIDATOR = Validator(_REQUEST)
BULK = answer({
    "bulkId": STRING, "action": STRING, "filter": OBJECT, "state": STRING, "count": {"type": "integer"},
    "done": {"type": "integer"}, "skipped": {"type": "integer"}, "actor": STRING, "createdAt": TIME, "endedAt": TIME,
}, "Bulk")  # fmt: skip


class Bulks(RegistryView):
    scopes = {"POST": ("tasks:write",)}

    @described(
        "Retry, cancel or redeliver all tasks that a filter finds; with dryRun only count them",
        "createBulk",
        request=_REQUEST,
        answers={202: BULK},
        writes=True,
        tag="tasks",
    )
    def post(self, request: Request) -> Response:
        body = json_object(request, _VALIDATOR)
        _check_times(body["filter"])
        row = bulk.create(
            namespace_of(request),
            _own(request),
            body["action"],
            body["filter"],
            dry_run=body.get("dryRun", False),
            now=now(),
            **self.author(),
        )
        return Response(document(row), status=202)


class OneBulk(RegistryView):
    scopes = {"GET": ("tasks:write", "tasks:read")}

    @described("A bulk action and how far it is", "getBulk", answers={200: BULK}, tag="tasks")
    def get(self, request: Request, bulk_id: uuid.UUID) -> Response:
        row = bulk.owned(namespace_of(request), _own(request)).filter(pk=bulk_id).first()
        if row is None:
            raise NotFound
        return Response(document(row))


class StopBulk(RegistryView):
    scopes = {"POST": ("tasks:write",)}

    @described("Have a bulk action touch no further task", "stopBulk", answers={200: BULK}, writes=True, tag="tasks")
    def post(self, request: Request, bulk_id: uuid.UUID) -> Response:
        row = bulk.stop(namespace_of(request), _own(request), bulk_id, now=now(), **self.author())
        return Response(document(row))


def document(row: Bulk) -> dict[str, Any]:
    """A bulk action as the API shows it."""
    return {
        "bulkId": str(row.pk),
        "action": row.action,
        "filter": row.filter,
        "state": row.state,
        "count": row.count,
        "done": row.done,
        "skipped": row.skipped,
        "actor": row.actor,
        "createdAt": rfc3339(row.created_at),
        "endedAt": rfc3339(row.ended_at),
    }


def _own(request: Request) -> str | None:
    principal = principal_of(request)
    return None if principal.is_operator else (principal.client or "")


def _check_times(given: dict[str, Any]) -> None:
    for name in ("createdAfter", "createdBefore"):
        try:
            parse_time(given.get(name, "2026-01-01T00:00:00Z"))
        except ValueError as error:
            raise Invalid([{"pointer": f"/filter/{name}", "code": "FORMAT", "message": str(error)}]) from None

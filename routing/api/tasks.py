"""Following and steering tasks: list, document, events, cancel, retry, and the callback once more."""

import functools
import re
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from common.clock import now
from common.errors import BadRequest, NotFound
from common.ids import parse_id
from registry.api.parsing import choice_of, json_object, refuse_misspelt_query
from registry.permissions import HasScope, principal_of
from routing import documents, selectors
from routing.api import bodies, described
from routing.api.exports import tasks_as_csv
from routing.api.reading import (
    caller_of,
    json_answer,
    number_of,
    own_task,
    text_of,
    time_of,
)
from routing.handoff import TaskEvents
from routing.services import sweep
from routing.services.cancel import cancel
from routing.services.redeliver import redeliver
from routing.services.retry import retry
from routing.states import TaskState

PAGE, LARGEST_PAGE, LARGEST_EXPORT = 50, 500, 1_000_000
LAST_SEQ = (1 << 31) - 1
_SEQ = re.compile(r"[0-9]{1,10}", re.ASCII)


class Csv(BaseRenderer):
    """Makes `Accept: text/csv` acceptable; the rows are written by the export."""

    media_type, format = "text/csv", "csv"


class TasksView(APIView):
    permission_classes = [HasScope("tasks:read")]
    renderer_classes = [JSONRenderer, Csv]

    @described.TASKS
    def get(self, request: Request) -> HttpResponseBase:
        refuse_misspelt_query(request, described.TASKS_QUERY)
        query = request.query_params
        namespace, client = caller_of(request)
        as_csv = "csv" in (choice_of(request, "format", ("json", "csv")), request.accepted_renderer.format)
        page = functools.partial(
            selectors.tasks,
            namespace,
            client=client if client is not None else text_of(query, "client"),
            state=_state(text_of(query, "state")),
            ability=text_of(query, "ability"),
            agent_id=text_of(query, "agentId"),
            correlation_id=text_of(query, "correlationId"),
            trace_id=text_of(query, "traceId"),
            created_after=time_of(query, "createdAfter"),
            created_before=time_of(query, "createdBefore"),
        )
        after = _cursor(text_of(query, "cursor"))
        if as_csv:
            most = number_of(query, "limit", 0, 1, LARGEST_EXPORT) or None
            return tasks_as_csv(lambda before, size: page(before=before, limit=size, bodies=False), after, most)
        limit = number_of(query, "limit", PAGE, 1, LARGEST_PAGE)
        rows = page(before=after, limit=limit + 1)
        more = len(rows) > limit
        items = [documents.task_object(row) for row in rows[:limit]]
        return json_answer({"items": items, "nextCursor": str(items[-1]["taskId"]) if more else None})


class TaskView(APIView):
    permission_classes = [HasScope("tasks:read")]

    @described.TASK
    def get(self, request: Request, task_id: str) -> HttpResponse:
        return json_answer(_present(request, task_id))


class CancelView(APIView):
    permission_classes = [HasScope("tasks:write")]

    @described.CANCEL
    def post(self, request: Request, task_id: str) -> HttpResponse:
        id = own_task(request, task_id)
        json_object(request, bodies.nothing, may_be_empty=True)
        cancel(id, str(principal_of(request)), now(), ip=request.META.get("REMOTE_ADDR", ""))
        return json_answer(_present(request, task_id))


class RetryView(APIView):
    permission_classes = [HasScope("tasks:write")]

    @described.RETRY
    def post(self, request: Request, task_id: str) -> HttpResponse:
        id = own_task(request, task_id)
        json_object(request, bodies.nothing, may_be_empty=True)
        retry(id, str(principal_of(request)), now(), ip=request.META.get("REMOTE_ADDR", ""))
        response = json_answer(_present(request, task_id), 202)
        response["Location"] = f"/v1/tasks/{id}"
        return response


class RedeliverView(APIView):
    permission_classes = [HasScope("tasks:write")]

    @described.REDELIVER
    def post(self, request: Request, task_id: str) -> HttpResponse:
        id = own_task(request, task_id)
        json_object(request, bodies.nothing, may_be_empty=True)
        redeliver(id, str(principal_of(request)), now(), ip=request.META.get("REMOTE_ADDR", ""))
        return json_answer({"taskId": id, "callback": {"state": "PENDING"}}, 202)


class EventStream(BaseRenderer):
    """Makes `Accept: text/event-stream` acceptable; the events themselves are written by the hand-off."""

    media_type, format = "text/event-stream", "events"


class EventsView(APIView):
    permission_classes = [HasScope("tasks:read")]
    renderer_classes = [EventStream, JSONRenderer]

    @described.EVENTS
    def get(self, request: Request, task_id: str) -> HttpResponse:
        id = own_task(request, task_id)
        sweep.expire(id, now())
        response = HttpResponse(content_type="text/event-stream")
        response["Cache-Control"] = "no-store"
        response["X-Accel-Buffering"] = "no"
        response.hand_off = TaskEvents(id, _last_seen(request))  # type: ignore[attr-defined]
        return response


def _present(request: Request, task_id: str) -> bytes:
    """The task document; a task whose time is over ends first."""
    namespace, client = caller_of(request)
    id, at = parse_id(task_id), now()
    row = selectors.task(id, namespace=namespace, client=client) if id else None
    if row and row["outcome"] is None and row["deadline_at"] <= at and sweep.expire(row["id"], at):
        row = selectors.task(row["id"])
    if row is None:
        raise NotFound
    return documents.task_document(row)


def _state(given: str | None) -> str | None:
    if given is not None and given not in TaskState.values:
        raise BadRequest(f"state must be one of {', '.join(TaskState.values)}")
    return given


def _cursor(given: str | None) -> Any:
    found = parse_id(given) if given else None
    if given and found is None:
        raise BadRequest("cursor must be the nextCursor of an earlier answer")
    return found


def _last_seen(request: Request) -> int:
    """The number after which the stream goes on; nonsense means from the start."""
    given = request.META.get("HTTP_LAST_EVENT_ID", "").strip()
    return min(int(given), LAST_SEQ) if _SEQ.fullmatch(given) else 0

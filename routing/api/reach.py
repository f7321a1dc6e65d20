"""Submitting tasks: `POST /v1/reach` and `POST /v1/reach/batch`."""

import uuid
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from common import ids
from common.clock import now
from common.errors import ReachError, problem, trace_id_of_request
from registry.api.parsing import read_body
from registry.permissions import DEFAULT_NAMESPACE, HasScope, namespace_of, principal_of
from registry.principal import Principal
from routing.api import described
from routing.api.preferences import wait_of
from routing.api.reading import json_answer
from routing.handoff import WaitForTask
from routing.requests import parse, parse_batch
from routing.services.accept import accept, accept_many
from routing.trip import Accepted


class ReachView(APIView):
    permission_classes = [HasScope("tasks:write")]

    @described.REACH
    def post(self, request: Request) -> HttpResponse:
        principal, namespace = principal_of(request), namespace_of(request)
        asked = parse(read_body(request)[0])
        accepted = accept(principal, namespace, asked, traceparent=_traceparent(request), now=now())
        response = json_answer(_document(accepted, principal, namespace), 202)
        response["Location"] = f"/v1/tasks/{accepted.task_id}{_query(principal, namespace)}"
        if accepted.replayed:
            response["Idempotent-Replayed"] = "true"
        _wait(request, response, accepted.task_id)
        return response


class BatchView(APIView):
    permission_classes = [HasScope("tasks:write")]

    @described.BATCH
    def post(self, request: Request) -> HttpResponse:
        principal, namespace = principal_of(request), namespace_of(request)
        answers = accept_many(
            principal, namespace, parse_batch(read_body(request)[0]), traceparent=_traceparent(request), now=now()
        )
        trace_id = trace_id_of_request(request)
        items = [_item(answer, principal, namespace, trace_id) for answer in answers]
        return json_answer({"items": [{"index": index, **item} for index, item in enumerate(items)]})


def _item(answer: Accepted | ReachError, principal: Principal, namespace: str, trace_id: str) -> dict[str, Any]:
    if isinstance(answer, ReachError):
        return {"status": answer.status, "error": problem(answer, trace_id)}
    return {"status": 202, **_document(answer, principal, namespace), "replayed": answer.replayed}


def _document(accepted: Accepted, principal: Principal, namespace: str) -> dict[str, Any]:
    return {
        "code": 202,
        "taskId": str(accepted.task_id),
        "traceId": accepted.trace_id,
        "correlationId": accepted.correlation_id,
        "state": accepted.state,
        "statusUrl": f"{settings.REACH_PUBLIC_URL}/v1/tasks/{accepted.task_id}{_query(principal, namespace)}",
    }


def _query(principal: Principal, namespace: str) -> str:
    """What an operator has to add to find the task of another namespace again."""
    return f"?namespace={namespace}" if principal.is_operator and namespace != DEFAULT_NAMESPACE else ""


def _wait(request: Request, response: HttpResponse, task_id: uuid.UUID) -> None:
    """Leave the wait to the loop; who may not read tasks is not shown one, and gets the 202 at once."""
    seconds = wait_of(request.META.get("HTTP_PREFER", ""))
    if seconds and principal_of(request).may("tasks:read"):
        response["Preference-Applied"] = f"wait={seconds}"
        response.hand_off = WaitForTask(task_id, seconds)  # type: ignore[attr-defined]


def _traceparent(request: Request) -> str:
    """The caller's, else one of the request's own trace, which the log lines about it name."""
    given: str = request.META.get("HTTP_TRACEPARENT", "")
    return given if ids.parse_traceparent(given) else ids.traceparent(trace_id_of_request(request))

"""What agents report about a task that they were given: receipt, progress, result."""

import uuid
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from common.clock import now
from common.errors import Invalid, NotFound
from common.ids import parse_id
from common.json import parse_object
from common.schema import Validator
from registry.api.parsing import read_body
from registry.permissions import HasScope, principal_of
from routing.api import bodies, described
from routing.api.reading import json_answer
from routing.models import Attempt
from routing.services import report


class _ReportView(APIView):
    """One kind of report; it must come with the attempt's own token or from the agent that has the attempt."""

    permission_classes = [HasScope("agent:work")]
    validator: Validator
    service: Callable[..., Any]

    def report(self, request: Request, task_id: str) -> HttpResponse:
        raw = read_body(request)[0]
        body = parse_object(raw)
        if errors := self.validator.errors(body):
            raise Invalid(errors)
        key = _own_attempt(request, task_id, body["attemptKey"])
        answer = type(self).service(parse_id(task_id), key, raw, now())
        return json_answer(answer or {"taskId": task_id.lower(), "attemptKey": str(key)})


class ReceiptView(_ReportView):
    validator, service = bodies.receipt, staticmethod(report.receipt)

    @described.RECEIPT
    def post(self, request: Request, task_id: str) -> HttpResponse:
        return self.report(request, task_id)


class ProgressView(_ReportView):
    validator, service = bodies.progress, staticmethod(report.progress)

    @described.PROGRESS
    def post(self, request: Request, task_id: str) -> HttpResponse:
        return self.report(request, task_id)


class ResultView(_ReportView):
    validator, service = bodies.result, staticmethod(report.result)

    @described.RESULT
    def post(self, request: Request, task_id: str) -> HttpResponse:
        return self.report(request, task_id)


def _own_attempt(request: Request, task_id: str, attempt_key: str) -> uuid.UUID:
    """The attempt's key, if the sender has that attempt; else NotFound, whatever the reason."""
    principal, id, key = principal_of(request), parse_id(task_id), parse_id(attempt_key)
    if id is None or key is None:
        raise NotFound
    if principal.kind == "attempt":
        if (principal.task_id, principal.attempt_key) != (id, str(key)):
            raise NotFound
        return key
    own = {} if principal.is_operator else {"namespace": principal.namespace, "agent_id": principal.agent_id}
    if not Attempt.objects.filter(task_id=id, key=key, **own).exists():
        raise NotFound
    return key

"""The endpoints that join several packages: journey, trace, usage; and what watchers ask."""

import datetime as dt
import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.request import Request
from rest_framework.views import APIView

from common.clock import now, parse_time
from common.encoding import dumps
from common.errors import BadRequest, NotFound
from common.ids import parse_id
from insight import health, journey, metrics, traces, usage
from registry.api.parsing import refuse_misspelt_query
from registry.permissions import HasScope, namespace_of, principal_of

_TRACE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
USAGE_DAYS = 30


def _own_client(request: Request) -> str | None:
    """A client sees its own tasks; an operator everyone's of the namespace."""
    principal = principal_of(request)
    return None if principal.is_operator else (principal.client or "")


def _json(document: dict[str, Any], status: int = 200) -> HttpResponse:
    return HttpResponse(dumps(document), status=status, content_type="application/json")


class JourneyView(APIView):
    permission_classes = [HasScope("tasks:read")]

    @extend_schema(
        operation_id="task_journey",
        summary="A task's events, decisions, attempts and callback deliveries, and what they mean",
        responses={200: OpenApiResponse(OpenApiTypes.OBJECT), 404: OpenApiResponse(OpenApiTypes.OBJECT)},
        tags=["tasks"],
    )
    def get(self, request: Request, task_id: str) -> HttpResponse:
        id = parse_id(task_id)
        if id is None:
            raise NotFound
        return _json(journey.journey(id, now(), namespace=namespace_of(request), client=_own_client(request)))


class TraceView(APIView):
    permission_classes = [HasScope("tasks:read")]

    @extend_schema(
        operation_id="trace",
        summary="The tree of a trace's tasks",
        responses={200: OpenApiResponse(OpenApiTypes.OBJECT), 404: OpenApiResponse(OpenApiTypes.OBJECT)},
        tags=["tasks"],
    )
    def get(self, request: Request, trace_id: str) -> HttpResponse:
        if not _TRACE_ID.fullmatch(trace_id):
            raise NotFound
        return _json(traces.trace(trace_id, namespace=namespace_of(request), client=_own_client(request)))


class UsageView(APIView):
    permission_classes = [HasScope("tasks:read")]

    @extend_schema(
        operation_id="usage",
        summary="Counts and cost of the tasks accepted in a span of time",
        description="Without `from` and `to`: the last 30 days.",
        parameters=[
            OpenApiParameter("by", enum=list(usage.KEYS), required=True),
            OpenApiParameter("from", OpenApiTypes.DATETIME),
            OpenApiParameter("to", OpenApiTypes.DATETIME),
        ],
        responses={200: OpenApiResponse(OpenApiTypes.OBJECT), 400: OpenApiResponse(OpenApiTypes.OBJECT)},
        tags=["usage"],
    )
    def get(self, request: Request) -> HttpResponse:
        refuse_misspelt_query(request, ("by", "from", "to"))
        by = request.query_params.get("by", "")
        if by not in usage.KEYS:
            raise BadRequest(f"by must be one of {', '.join(usage.KEYS)}")
        end = _time(request, "to") or now()
        start = _time(request, "from") or end - dt.timedelta(days=USAGE_DAYS)
        if start > end:
            raise BadRequest("from must not be after to")
        return _json(usage.usage(by, namespace_of(request), start, end, _own_client(request)))


def _time(request: Request, name: str) -> dt.datetime | None:
    given = request.query_params.get(name)
    if not given:
        return None
    try:
        found = parse_time(given)
    except ValueError as problem:
        raise BadRequest(f"{name}: {problem}") from None
    if not 1970 <= found.year < 9999:
        raise BadRequest(f"{name}: the time is out of range")
    return found


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while this process answers at all."""
    return _json({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 or 503, with each part's verdict."""
    ready, document = health.readiness()
    response = _json(document, 200 if ready else 503)
    response["Cache-Control"] = "no-store"
    if not ready:
        response["Retry-After"] = "2"
    return response


@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    """Prometheus text."""
    return HttpResponse(metrics.exposition(), content_type=CONTENT_TYPE_LATEST)

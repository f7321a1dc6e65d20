"""How an agent is used, over the API."""

import datetime as dt
import re

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from common.clock import now
from common.encoding import dumps
from common.errors import BadRequest
from insight import baselines, stats
from registry import queries
from registry.api.parsing import refuse_misspelt_query, text_parameter
from registry.api.view import (
    OBJECT,
    PROBLEM,
    READ_AGENTS,
    READING,
    STRING,
    TIME,
    RegistryView,
    answer,
    described,
    listing,
)
from registry.permissions import namespace_of, principal_of, require_agent

USUAL, LONGEST = dt.timedelta(hours=1), dt.timedelta(days=30)
_WINDOW = re.compile(r"([0-9]{1,9})(ms|s|m|h|d|)", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NUMBER = {"type": ["number", "null"]}
COUNT = {"type": "integer"}
STATS = answer({
    "agentId": STRING, "from": TIME, "to": TIME, "windowMs": COUNT, "alive": {"type": "boolean"},
    "instances": {"type": "object", "additionalProperties": COUNT}, "takingWork": COUNT, "calls": COUNT,
    "succeeded": COUNT, "failed": COUNT, "inflight": COUNT, "qps": NUMBER, "success": NUMBER, "meanLatencyMs": NUMBER,
    "p95LatencyMs": NUMBER, "failures": {"type": "array", "items": OBJECT},
    "callers": {"type": "array", "items": OBJECT}, "sampled": {"type": "boolean"},
}, "AgentStats")  # fmt: skip

BASELINE = answer({
    "agentId": STRING, "capability": STRING, "count": COUNT, "p50Ms": NUMBER, "p95Ms": NUMBER, "p99Ms": NUMBER,
    "meanMs": NUMBER, "timeoutRate": NUMBER, "retryRate": NUMBER, "recommendedTimeoutMs": NUMBER,
    "recommendedSlaMs": NUMBER,
}, "Baseline")  # fmt: skip


class AgentStats(RegistryView):
    scopes = {"GET": READ_AGENTS}

    @extend_schema(
        operation_id="agentStats",
        summary="Alive, latency, calls a second, success, failure reasons and callers of an agent",
        description="Of the newest 20,000 calls in the window; `sampled` says that there were more. A client sees of "
        "the callers only itself.",
        tags=["registry"],
        parameters=[
            OpenApiParameter("namespace", str),
            OpenApiParameter("window", str, description="90s, 15m, 6h, 7d, or seconds; up to 30d; default 1h"),
        ],
        responses={
            200: OpenApiResponse(STATS, "The figures"),
            **{(e.status, "application/problem+json"): OpenApiResponse(PROBLEM, e.title) for e in READING},
        },
    )
    def get(self, request: Request, agent_id: str) -> HttpResponse:
        require_agent(request, agent_id)
        agent, principal = queries.agent(namespace_of(request), agent_id), principal_of(request)
        refuse_misspelt_query(request, ("window",))
        found = stats.of_agent(agent, window_of(request.query_params.get("window")), now())
        document = stats.document(agent_id, found, principal.client if principal.kind == "client" else None)
        return HttpResponse(dumps(document), content_type="application/json")


class Baselines(RegistryView):
    scopes = {"GET": READ_AGENTS}

    @described(
        "What is usual for each agent's capabilities in the last seven days, and the limits that follow from it",
        "listBaselines",
        answers={200: listing(BASELINE)},
        query=("agentId",),
        tag="registry",
    )
    def get(self, request: Request) -> HttpResponse:
        refuse_misspelt_query(request, ("agentId",))
        agent_id, principal = text_parameter(request, "agentId"), principal_of(request)
        if principal.kind == "agent":
            agent_id = agent_id or principal.agent_id
        if agent_id:
            require_agent(request, agent_id)
            queries.agent(namespace_of(request), agent_id)
        rows = baselines.baselines(namespace_of(request), agent_id, now())
        return HttpResponse(dumps({"items": rows, "nextCursor": None}), content_type="application/json")


def window_of(text: str | None) -> dt.timedelta:
    """A span like 90s, 15m, 6h or 7d; a bare number counts seconds. Raises BadRequest."""
    if text is None:
        return USUAL
    found = _WINDOW.fullmatch(text)
    window = dt.timedelta(milliseconds=int(found[1]) * _UNIT_MS[found[2]]) if found else dt.timedelta(0)
    if not dt.timedelta(seconds=1) <= window <= LONGEST:
        raise BadRequest("window must be a span from 1s to 30d, like 90s, 15m, 6h or 7d")
    return window

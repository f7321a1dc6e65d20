"""The OpenAPI entries of this package's endpoints."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from common.errors import (
    AbilityNotAllowed,
    AbilityNotRegistered,
    BadRequest,
    BodyTooLarge,
    Forbidden,
    IdempotencyMismatch,
    Invalid,
    MethodNotAllowed,
    NoMatch,
    NotAcceptable,
    NotFound,
    NotReady,
    Overloaded,
    RateLimited,
    ReachError,
    StateConflict,
    Unauthenticated,
    UnsupportedMediaType,
    problem,
)
from registry.api.view import PROBLEM, listing
from routing import request_schema, route_tables
from routing.api import bodies
from routing.api.documented import ABILITY, ACCEPTED, BATCH_ITEMS, CHOSEN, LEASED, PUT_ROUTES, ROUTES, TASK_DOCUMENT
from routing.states import TaskState

JSON = "application/json"
YAML = "application/yaml"
_ALWAYS: tuple[type[ReachError], ...] = (Unauthenticated, Forbidden, MethodNotAllowed, NotAcceptable, NotReady)
_BODY: tuple[type[ReachError], ...] = (BadRequest, BodyTooLarge, UnsupportedMediaType, Invalid)
_TRACE = "0af7651916cd43dd8448eb211c80319c"


def _entry(
    operation: str,
    summary: str,
    answers: dict[int | tuple[int, str], Any],
    *errors: type[ReachError],
    description: str = "",
    body: dict[str, Any] | None = None,
    media_types: tuple[str, ...] = (JSON,),
    parameters: tuple[OpenApiParameter, ...] = (),
    tag: str = "tasks",
) -> Callable[..., Any]:
    wrong = _problems((*_ALWAYS, *(_BODY if body else ()), *errors))
    return extend_schema(
        operation_id=operation,
        summary=summary,
        description=description or None,
        tags=[tag],
        request=dict.fromkeys(media_types, body) if body else None,
        responses={**answers, **wrong},
        parameters=[*parameters, _NAMESPACE],
    )


def _problems(errors: tuple[type[ReachError], ...]) -> dict[tuple[int, str], Any]:
    by_status: dict[int, list[type[ReachError]]] = {}
    for error in errors:
        by_status.setdefault(error.status, []).append(error)
    return {
        (status, "application/problem+json"): OpenApiResponse(
            {**PROBLEM, "examples": [problem(kind(), _TRACE) for kind in kinds]},
            " · ".join(kind.code for kind in kinds),
        )
        for status, kinds in sorted(by_status.items())
    }


def _query(name: str, description: str = "", **schema: Any) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "string", **schema}, OpenApiParameter.QUERY, description=description)


def _header(name: str, description: str, **schema: Any) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "string", **schema}, OpenApiParameter.HEADER, description=description)


def _answer_header(status: int, name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=description, response=[status])


_NAMESPACE = _query("namespace", "For operators, whose credential belongs to none; `default` when absent.")
_DRY_RUN = _query("dryRun", "1 = answer the difference and change nothing.", enum=["0", "1", "true", "false"])
_PREFER = _header("Prefer", "`wait=N`: wait up to N (at most 30) seconds for the end.", examples=["wait=10"])

REACH = _entry(
    "reach",
    "Hand over a task",
    {202: OpenApiResponse(ACCEPTED, "Durable"), 200: OpenApiResponse(TASK_DOCUMENT, "Ended while you waited")},
    AbilityNotAllowed,
    AbilityNotRegistered,
    IdempotencyMismatch,
    RateLimited,
    Overloaded,
    description="The same client, namespace and correlationId with equal content is the same task again.",
    body=request_schema.REACH,
    parameters=(
        _PREFER,
        _header("traceparent", "W3C trace context; a `traceId` in the body wins."),
        _answer_header(202, "Location", "The task's address."),
        _answer_header(202, "Idempotent-Replayed", "`true` when an earlier task answers."),
        _answer_header(202, "Preference-Applied", "The wait that was granted."),
    ),
)
BATCH = _entry(
    "reach_batch",
    "Hand over up to 500 tasks",
    {200: OpenApiResponse(BATCH_ITEMS, "One entry a task, in order; a bad one does not spoil the others")},
    body={**request_schema.BATCH, "properties": {"tasks": {**request_schema.BATCH["properties"]["tasks"],
          "items": {"type": "object", "description": "As for POST /v1/reach."}}}},
)  # fmt: skip
_TASKS_QUERY = (
    _query("state", enum=list(TaskState.values)),
    *(_query(name) for name in ("ability", "agentId", "correlationId", "traceId")),
    _query("client", "For operators."),
    *(_query(name, format="date-time") for name in ("createdAfter", "createdBefore")),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        OpenApiParameter.QUERY,
        description="A page has at most 500 and 50 unless told; a file has all unless told.",
    ),
    _query("cursor", "The `nextCursor` of the page before."),
    _query("format", "`csv`: every task that fits, in one file without results.", enum=["json", "csv"]),
)
TASKS_QUERY = tuple(parameter.name for parameter in _TASKS_QUERY)
TASKS = _entry(
    "tasks",
    "List tasks, newest first",
    {200: OpenApiResponse(listing(TASK_DOCUMENT), "A page"), (200, "text/csv"): OpenApiResponse(str, "A file")},
    BadRequest,
    description="A query parameter that looks like one of these misspelt is refused: it must not pass for no filter.",
    parameters=_TASKS_QUERY,
)
TASK = _entry("task", "Read a task", {200: OpenApiResponse(TASK_DOCUMENT, "As it is now")}, NotFound)
CANCEL = _entry(
    "task_cancel", "Cancel a task", {200: OpenApiResponse(TASK_DOCUMENT, "Cancelled")}, NotFound, StateConflict
)
RETRY = _entry(
    "task_retry",
    "Try an ended, not succeeded task again",
    {202: OpenApiResponse(TASK_DOCUMENT, "Waiting for its next attempt")},
    NotFound,
    StateConflict,
    description="The same task with a fresh budget and time to live; its end gives a second callback.",
)
REDELIVER = _entry(
    "task_callback_redeliver",
    "Deliver an ended callback again",
    {202: OpenApiResponse({"type": "object"}, "Pending again, with the same webhook-id")},
    NotFound,
    StateConflict,
)
EVENTS = _entry(
    "task_events",
    "Follow a task (server-sent events)",
    {(200, "text/event-stream"): OpenApiResponse({"type": "string"}, "Ends with the final state")},
    NotFound,
    description="`id` is the event's seq, `event` its name, `data` the journey's event as JSON.",
    parameters=(_header("Last-Event-ID", "Go on after this seq."),),
)
_TAKEN: dict[int | tuple[int, str], Any] = {200: OpenApiResponse({"type": "object"}, "Taken, or taken before")}
_REPORT = (NotFound, StateConflict)
RECEIPT = _entry("task_receipt", "Say that you have it", _TAKEN, *_REPORT, body=bodies.RECEIPT, tag="agents")
PROGRESS = _entry("task_progress", "Say how far you are", _TAKEN, *_REPORT, body=bodies.PROGRESS, tag="agents")
RESULT = _entry("task_result", "Hand in the result", _TAKEN, *_REPORT, body=bodies.RESULT, tag="agents")
LEASE = _entry(
    "agent_lease",
    "Fetch tasks, waiting for some if there are none",
    {200: OpenApiResponse(LEASED, "At most `max` tasks, perhaps none; acknowledge each before its `leaseUntil`")},
    BadRequest,
    NotFound,
    StateConflict,
    description="For agents whose manifest lists the channel pull. Report by receipt, progress and result.",
    body=bodies.LEASE,
    parameters=(_query("wait", "Seconds to wait.", type="integer", minimum=0, maximum=30, default=20),),
    tag="agents",
)
REDELIVER_MANY = _entry(
    "callbacks_redeliver",
    "Deliver ended callbacks again, by filter",
    {202: OpenApiResponse({"type": "object", "properties": {"count": {"type": "integer"}}}, "Pending again")},
    body=bodies.REDELIVER_FILTER,
    tag="operations",
)
ROUTES_GET = _entry("routes", "Read the route table", {200: OpenApiResponse(ROUTES, "All routes")}, tag="routes")
ROUTES_PUT = _entry(
    "routes_put",
    "Write the routes that a table lists",
    {200: OpenApiResponse(PUT_ROUTES, "Written, or with dryRun the difference")},
    NotFound,
    body=route_tables.TABLE,
    media_types=(JSON, YAML),
    parameters=(_DRY_RUN,),
    tag="routes",
)
ROUTE_GET = _entry(
    "route_read", "Read one route", {200: OpenApiResponse(ROUTES, "A table of it")}, NotFound, tag="routes"
)
ROUTE_PUT = _entry(
    "route_put",
    "Write one route",
    {201: OpenApiResponse(PUT_ROUTES, "Created"), 200: OpenApiResponse(PUT_ROUTES, "Changed, or as it was")},
    NotFound,
    description="A route table with exactly this route, or the route itself.",
    body={"oneOf": [route_tables.TABLE, {**route_tables.ROUTE, "required": ["candidates"]}]},
    media_types=(JSON, YAML),
    parameters=(_DRY_RUN,),
    tag="routes",
)
ABILITIES = _entry(
    "abilities", "List what can be asked for", {200: OpenApiResponse(listing(ABILITY), "Abilities")}, tag="catalog"
)
CHOOSE = _entry(
    "choose",
    "Ask who would get a task, without sending it",
    {200: OpenApiResponse(CHOSEN, "The choice; `matchedAgent` is null when nobody can serve now")},
    AbilityNotAllowed,
    AbilityNotRegistered,
    NoMatch,
    description="With the scope `route:endpoint` the answer has the address, and a slot there is leased for the call.",
    body=bodies.CHOOSE,
    tag="routes",
)
OUTCOME = _entry(
    "route_outcome",
    "Say how a call went that you made by yourself",
    {
        200: OpenApiResponse(
            {"type": "object", "properties": {"counted": {"type": "boolean"}}}, "Taken, or taken before"
        )
    },
    NotFound,
    description="Gives the leased slot back and counts for the instance's health, once; for an hour after the choice.",
    body=bodies.OUTCOME,
    tag="routes",
)

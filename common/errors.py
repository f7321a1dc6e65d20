"""Everything a caller may be told went wrong, each with a stable code, and the one place that turns it into an answer.

ReachError
├── the request cannot be read ............ the caller's program is wrong
│   ├── 400 MalformedJson · MalformedYaml · BadRequest
│   ├── 405 MethodNotAllowed · 406 NotAcceptable · 415 UnsupportedMediaType
│   └── 413 BodyTooLarge
├── the caller may not .................... the caller's credentials or rights
│   ├── 401 Unauthenticated
│   └── 403 Forbidden · AbilityNotAllowed
├── the thing is not there, or not so ..... the caller's picture of us is out of date
│   ├── 404 NotFound · AbilityNotRegistered · NoMatch
│   └── 409 StateConflict
├── the request says something wrong ...... the caller's data, each with pointers
│   └── 422 Invalid · PayloadInvalid · IdempotencyMismatch · CallbackUrlRefused · ManifestInvalid
├── the caller asks too much .............. wait and come again
│   └── 429 RateLimited · BudgetExhausted
└── we cannot just now .................... our side
    ├── 503 Overloaded · NotReady
    └── 500 Internal
"""

import functools
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse

from common.encoding import clean_text, dumps, pointer
from common.ids import new_trace_id, parse_traceparent

log = logging.getLogger(__name__)

FieldErrors = list[dict[str, str]]
PROBLEM_TYPE = "application/problem+json"
TEXT_LIMIT = 1000
POINTER_LIMIT = 500


class ReachError(Exception):
    """An error for the caller: HTTP `status`, stable `code`, `title`, `detail`, `errors` with pointers, `retry_after`
    in seconds, and `extra` members of the problem document."""

    status = 500
    code = "INTERNAL"
    title = "Something went wrong on our side"
    retry_after: float | None = None

    def __init__(
        self,
        detail: str = "",
        *,
        errors: FieldErrors | None = None,
        retry_after: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.detail = detail or self.title
        self.errors = errors or []
        self.extra = dict(extra or {})
        if retry_after is not None:
            self.retry_after = retry_after
        super().__init__(self.detail)


class MalformedJson(ReachError):
    """The body is not strict JSON; `line` and `column`, or `pointer`, say where."""

    status, code, title = 400, "MALFORMED_JSON", "The body is not valid JSON"

    def __init__(self, detail: str = "", **where: Any) -> None:
        super().__init__(detail, extra=where)


class MalformedYaml(ReachError):
    """The body is not the YAML that is accepted here; counted from 1."""

    status, code, title = 400, "MALFORMED_YAML", "The body is not valid YAML"

    def __init__(self, detail: str = "", line: int = 1, column: int = 1) -> None:
        self.line, self.column = line, column
        super().__init__(
            f"{detail or self.title} at line {line}, column {column}", extra={"line": line, "column": column}
        )


class BadRequest(ReachError):
    status, code, title = 400, "BAD_REQUEST", "The request cannot be understood"


class MethodNotAllowed(ReachError):
    status, code, title = 405, "METHOD_NOT_ALLOWED", "This method is not available here"


class NotAcceptable(ReachError):
    status, code, title = 406, "NOT_ACCEPTABLE", "None of the accepted media types can be given"


class UnsupportedMediaType(ReachError):
    status, code, title = 415, "UNSUPPORTED_MEDIA_TYPE", "The media type of the body is not read here"


class BodyTooLarge(ReachError):
    """The body is over `limit` bytes."""

    status, code, title = 413, "BODY_TOO_LARGE", "The body is too large"

    def __init__(self, limit: int | None = None) -> None:
        super().__init__(f"the body may have at most {limit} bytes" if limit else "")


class Unauthenticated(ReachError):
    """One text for every cause, so that nobody learns which keys exist."""

    status, code, title = 401, "UNAUTHENTICATED", "A valid credential is required"

    def __init__(self) -> None:
        super().__init__("send Authorization: Bearer <key>, or a request signed by RFC 9421")


class Forbidden(ReachError):
    status, code, title = 403, "FORBIDDEN", "This credential may not do that"


class AbilityNotAllowed(ReachError):
    status, code, title = 403, "ABILITY_NOT_ALLOWED", "This client may not use that ability"


class NotFound(ReachError):
    status, code, title = 404, "NOT_FOUND", "There is nothing here"


class AbilityNotRegistered(ReachError):
    status, code, title = 404, "ABILITY_NOT_REGISTERED", "No agent offers that ability"


class NoMatch(ReachError):
    status, code, title = 404, "NO_MATCH", "No ability fits these words well enough"


class StateConflict(ReachError):
    status, code, title = 409, "STATE_CONFLICT", "The present state does not allow that"


class Invalid(ReachError):
    status, code, title = 422, "INVALID", "Some fields are wrong"

    def __init__(self, errors: FieldErrors | None = None, detail: str = "", **more: Any) -> None:
        first = f"{errors[0]['pointer'] or 'the body'}: {errors[0]['message']}" if errors else ""
        super().__init__(detail or first, errors=errors, **more)


class PayloadInvalid(Invalid):
    code, title = "PAYLOAD_INVALID", "The payload does not fit the ability's input schema"


class ManifestInvalid(Invalid):
    code, title = "MANIFEST_INVALID", "The manifest has errors"


class IdempotencyMismatch(ReachError):
    status, code, title = 422, "IDEMPOTENCY_MISMATCH", "This correlationId was used for a different request"


class CallbackUrlRefused(ReachError):
    status, code, title = 422, "CALLBACK_URL_REFUSED", "The callback URL may not be called"


class RateLimited(ReachError):
    status, code, title, retry_after = 429, "RATE_LIMITED", "Too many requests", 1


class BudgetExhausted(ReachError):
    status, code, title, retry_after = 429, "BUDGET_EXHAUSTED", "The cost budget is used up", 3600


class Overloaded(ReachError):
    status, code, title, retry_after = 503, "OVERLOADED", "Too much is waiting already", 1


class NotReady(ReachError):
    status, code, title, retry_after = 503, "NOT_READY", "A part that is needed is away for the moment", 2


class Internal(ReachError):
    """Says nothing about the cause; the log line with the same trace id does."""


def problem(error: ReachError, trace_id: str) -> dict[str, Any]:
    """The RFC 9457 document of an error; text that came from outside is made showable and cut."""
    document: dict[str, Any] = {
        **error.extra,
        "type": "urn:agent-reach:problem:" + error.code.lower().replace("_", "-"),
        "title": error.title,
        "status": error.status,
        "detail": clean_text(error.detail, TEXT_LIMIT),
        "code": error.code,
        "traceId": trace_id,
    }
    if error.errors:
        document["errors"] = [
            {
                **item,
                "pointer": clean_text(item["pointer"], POINTER_LIMIT),
                "message": clean_text(item["message"], TEXT_LIMIT),
            }
            for item in error.errors
        ]
    return document


@functools.cache
def _foreign() -> list[tuple[type[BaseException], Callable[[Any], ReachError]]]:
    """Exceptions of Django and REST framework, and what each is for a caller."""
    # Imported late: REST framework reads the settings when imported, and the settings read YAML through this module.
    from rest_framework import exceptions as drf

    return [
        (drf.ValidationError, lambda exc: Invalid(list(_field_errors(exc.detail)))),
        (drf.ParseError, lambda exc: BadRequest(str(exc.detail))),
        (drf.NotAuthenticated, lambda exc: Unauthenticated()),
        (drf.AuthenticationFailed, lambda exc: Unauthenticated()),
        (drf.PermissionDenied, lambda exc: Forbidden(str(exc.detail))),
        (drf.NotFound, lambda exc: NotFound()),
        (drf.MethodNotAllowed, lambda exc: MethodNotAllowed(str(exc.detail))),
        (drf.NotAcceptable, lambda exc: NotAcceptable(str(exc.detail))),
        (drf.UnsupportedMediaType, lambda exc: UnsupportedMediaType(str(exc.detail))),
        (drf.Throttled, lambda exc: RateLimited(retry_after=exc.wait)),
        (PermissionDenied, lambda exc: Forbidden()),
        (Http404, lambda exc: NotFound()),
        (RequestDataTooBig, lambda exc: BodyTooLarge()),
        (SuspiciousOperation, lambda exc: BadRequest()),
        (OperationalError, lambda exc: NotReady("the database is away; try again")),
        (InterfaceError, lambda exc: NotReady("the database is away; try again")),
    ]


def as_reach_error(exc: BaseException) -> ReachError | None:
    """The caller's error for an exception of ours, of Django or of REST framework; None when it is a fault of ours."""
    if isinstance(exc, ReachError):
        return exc
    return next((make(exc) for kind, make in _foreign() if isinstance(exc, kind)), None)


def _field_errors(detail: Any, path: tuple[str | int, ...] = ()) -> Iterable[dict[str, str]]:
    """REST framework's nested error lists as flat ones with pointers."""
    if isinstance(detail, dict):
        for key, item in detail.items():
            yield from _field_errors(item, path if key == "non_field_errors" else (*path, key))
    elif isinstance(detail, list):
        for index, item in enumerate(detail):
            yield from _field_errors(item, path if isinstance(item, str) else (*path, index))
    else:
        yield {
            "pointer": pointer(path),
            "code": str(getattr(detail, "code", "invalid")).upper(),
            "message": str(detail),
        }


def trace_id_of_request(request: Any) -> str:
    """The request's `trace_id` where a middleware set one, else that of its traceparent, else a new one."""
    known = getattr(request, "trace_id", None)
    if known:
        return str(known)
    parsed = parse_traceparent(request.META.get("HTTP_TRACEPARENT")) if request is not None else None
    return parsed[0] if parsed else new_trace_id()


def problem_response(error: ReachError, trace_id: str) -> HttpResponse:
    """An `application/problem+json` response with Retry-After and WWW-Authenticate where they are due."""
    response = HttpResponse(dumps(problem(error, trace_id)), status=error.status, content_type=PROBLEM_TYPE)
    if error.status in (429, 503):
        response["Retry-After"] = str(max(1, math.ceil(error.retry_after or 1)))
    if error.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="agent-reach"'
    return response


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """REST framework's EXCEPTION_HANDLER: every exception becomes a problem document, a fault of ours a bare 500."""
    request, view = context.get("request"), context.get("view")
    trace_id = trace_id_of_request(request)
    error = as_reach_error(exc)
    if error is None:
        log.error("request failed", exc_info=exc, extra={"event": "http.error", "traceId": trace_id})
        error = Internal()
    response = problem_response(error, trace_id)
    if error.status == 405 and view is not None:
        response["Allow"] = ", ".join(view.allowed_methods)
    return response

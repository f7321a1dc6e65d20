"""Errors that arise outside a view: problem documents for programs, Django's pages for people."""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.views import defaults

from common.errors import (
    BadRequest,
    Forbidden,
    Internal,
    NotFound,
    ReachError,
    as_reach_error,
    problem_response,
    trace_id_of_request,
)

PAGES = ("/admin/", "/console/")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, DisallowedHost):
        host = request.META.get("HTTP_HOST", "")
        return _problem(request, BadRequest(f"the host name {host!r} is not served here: see REACH_ALLOWED_HOSTS"))
    return _problem(request, as_reach_error(exception) or BadRequest())


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(PAGES):
        return defaults.permission_denied(request, exception)
    return _problem(request, Forbidden())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(PAGES):
        return defaults.page_not_found(request, exception)
    return _problem(request, NotFound(f"there is nothing at {request.path}"))


def server_error(request: HttpRequest) -> HttpResponse:
    if request.path.startswith(PAGES):
        return defaults.server_error(request)
    return _problem(request, Internal())


def _problem(request: HttpRequest, error: ReachError) -> HttpResponse:
    return problem_response(error, trace_id_of_request(request))

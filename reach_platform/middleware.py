"""What every request and answer of Django's gets: a trace id, and security headers."""

import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from common.errors import trace_id_of_request
from common.logging import current_trace_id
from reach_platform.page_middleware import API

STRICT = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The admin's theme evaluates expressions (Alpine) and writes style attributes; it has no script within a page.
ADMIN = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# What programs read needs nothing at all.
DATA = "default-src 'none'; frame-ancestors 'none'"
# The API documentation page draws itself with style attributes.
DOCS = STRICT.replace("style-src 'self' 'nonce-{nonce}'", "style-src 'self' 'unsafe-inline'")


class TraceId:
    """Sets `request.trace_id`, the caller's from traceparent or a new one: log lines and problem documents share it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        trace_id = trace_id_of_request(request)
        request.trace_id = trace_id  # type: ignore[attr-defined]
        before = current_trace_id.set(trace_id)
        try:
            return self.get_response(request)
        finally:
            current_trace_id.reset(before)


class SecurityHeaders:
    """Sets the content security policy, with `request.csp_nonce` for the few inline scripts that are our own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(API):
            request.csp_nonce = secrets.token_urlsafe(16)  # type: ignore[attr-defined]
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", self._policy(request))
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Referrer-Policy", "same-origin")
        response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        return response

    @staticmethod
    def _policy(request: HttpRequest) -> str:
        if request.path.startswith(API):
            return DATA
        if request.path.startswith("/admin/"):
            return ADMIN
        template = DOCS if request.path.startswith("/docs") else STRICT
        return template.format(nonce=request.csp_nonce)  # type: ignore[attr-defined]

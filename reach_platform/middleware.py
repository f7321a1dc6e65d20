"""Security headers of every answer of Django's."""

import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

STRICT = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The admin's theme evaluates expressions (Alpine) and writes style attributes.
ADMIN = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# The API documentation page draws itself with style attributes.
DOCS = STRICT.replace("style-src 'self' 'nonce-{nonce}'", "style-src 'self' 'unsafe-inline'")


class SecurityHeaders:
    """Sets the content security policy, with `request.csp_nonce` for the few inline scripts that are our own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.csp_nonce = secrets.token_urlsafe(16)  # type: ignore[attr-defined]
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", self._policy(request))
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Referrer-Policy", "same-origin")
        response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        return response

    @staticmethod
    def _policy(request: HttpRequest) -> str:
        if request.path.startswith("/admin/"):
            return ADMIN
        template = DOCS if request.path.startswith("/docs") else STRICT
        return template.format(nonce=request.csp_nonce)  # type: ignore[attr-defined]

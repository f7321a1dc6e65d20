"""Bearer keys and RFC 9421 signatures for REST framework; `request.user` becomes a Principal.

Whatever is wrong with a credential, the caller sees the same 401.
"""

import re
from typing import Any
from urllib.parse import quote

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from common.clock import now
from common.errors import Unauthenticated
from common.secrets import decrypt, hash_key
from common.signing import BadSignature, verify
from registry import attempt_tokens, selectors
from registry.principal import ATTEMPT_SCOPES, Principal
from registry.services import nonces

__all__ = ["CredentialAuthentication", "Principal"]

_BEARER = re.compile(r"bearer +([\x21-\x7e]{1,512})", re.IGNORECASE | re.ASCII)
_WIRE_SAFE = "/:@!$&'()*+,;=~-._"


class CredentialAuthentication(BaseAuthentication):
    """Authenticates `Authorization: Bearer …`, else a signature; a request with neither stays anonymous."""

    def authenticate(self, request: Request) -> tuple[Principal, None] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is not None:
            return _by_bearer(header), None
        if "HTTP_SIGNATURE" in request.META or "HTTP_SIGNATURE_INPUT" in request.META:
            return _by_signature(request), None
        return None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="agent-reach"'


def _by_bearer(header: str) -> Principal:
    match = _BEARER.fullmatch(header.strip(" \t"))
    if match is None:
        raise Unauthenticated
    token = match[1]
    if token.startswith(attempt_tokens.PREFIX):
        return _by_attempt_token(token)
    known = selectors.credential_by_key(hash_key(token), now())
    if known is None:
        raise Unauthenticated
    return known.principal


def _by_attempt_token(token: str) -> Principal:
    attempt = attempt_tokens.verify(token)
    if attempt is None:
        raise Unauthenticated
    task_id, attempt_key = attempt
    return Principal(
        kind="attempt",
        namespace=None,
        client=None,
        agent_id=None,
        scopes=ATTEMPT_SCOPES,
        name=f"attempt:{attempt_key}",
        task_id=task_id,
        attempt_key=attempt_key,
    )


def _by_signature(request: Request) -> Principal:
    at = now()
    found: dict[str, Any] = {}

    def secret_of(access_key: str) -> list[str] | None:
        known = selectors.credential_by_access_key(access_key, at)
        found["principal"] = known.principal if known else None
        return [decrypt(known.secret_key)] if known else None

    path, query = _target(request)
    try:
        signed = verify(request.method, path, query, request.body, _signature_headers(request), secret_of, now=at)
    except BadSignature:
        raise Unauthenticated from None
    if not nonces.remember(signed.keyid, signed.nonce, at):
        raise Unauthenticated
    principal: Principal = found["principal"]
    return principal


def _signature_headers(request: Request) -> dict[str, str]:
    names = ("Content-Digest", "Signature-Input", "Signature")
    keys = {name: "HTTP_" + name.upper().replace("-", "_") for name in names}
    return {name: request.META[key] for name, key in keys.items() if key in request.META}


def _target(request: Request) -> tuple[str, str]:
    """Path and query in the spelling that came over the wire, where the server passes it on."""
    raw = request.META.get("RAW_URI") or request.META.get("REQUEST_URI")
    if raw:
        path, _, query = raw.partition("?")
        return path, query
    return quote(request.path, safe=_WIRE_SAFE), request.META.get("QUERY_STRING", "")

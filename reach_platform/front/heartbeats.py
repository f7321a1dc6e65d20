"""Plain heartbeats, answered past Django's handling of requests, which would cost ten times what a heartbeat does.

Nine requests of ten are heartbeats where there are many instances. Whatever is unusual about one, or wrong, is left to
the view, which finds it all again: a heartbeat that is heard twice is one.
"""

import re
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.http import HttpResponse, HttpResponseBase

from common import json
from common.clock import now
from common.encoding import dumps
from common.errors import ReachError
from common.secrets import hash_key
from reach_platform.middleware import DATA
from registry import bodies, selectors
from registry.health import HEARTBEAT_INTERVAL_MS
from registry.manifest import plain_numbers
from registry.principal import Principal
from registry.services import instances

Handler = Callable[[dict[str, Any], Callable[..., Any]], HttpResponseBase]

WORK = ("agent:register", "agent:work")
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"  # names with other characters are the view's
_PATH = re.compile(f"/v1/agents/({_NAME})/instances/({_NAME})/heartbeat")
_KEY = re.compile(r"Bearer ([\x21-\x7e]{1,512})")
_ACCEPTED = frozenset({"", "*/*", "application/json"})
_HEADERS = {
    "Content-Security-Policy": DATA,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def first(handler: Handler) -> Handler:
    """The handler, with plain heartbeats answered before it."""

    def handle(environ: dict[str, Any], start_response: Callable[..., Any]) -> HttpResponseBase:
        answer = _answer(environ)
        return handler(environ, start_response) if answer is None else answer

    return handle


def _answer(environ: dict[str, Any]) -> HttpResponse | None:
    """The answer to a plain heartbeat; None where there is anything else to say."""
    place = _PATH.fullmatch(environ["PATH_INFO"]) if _is_plain(environ) else None
    key = _KEY.fullmatch(environ.get("HTTP_AUTHORIZATION", ""))
    if place is None or key is None:
        return None
    agent_id, instance_id = place.groups()
    try:
        principal = _principal(key[1], agent_id)
        body = json.parse_object(environ["wsgi.input"].getvalue())
        if principal is None or principal.namespace is None or bodies.heartbeat.errors(body):
            return None
        heard = instances.heartbeat(principal.namespace, agent_id, instance_id, plain_numbers(body), now=now())
    except (ReachError, DatabaseError, InterfaceError):
        return None
    shown = {"state": heard.state, "score": heard.score, "nextHeartbeatMs": HEARTBEAT_INTERVAL_MS,
             "registered": heard.registered}  # fmt: skip
    raw = dumps(shown)
    return HttpResponse(raw, "application/json", headers={**_HEADERS, "Content-Length": str(len(raw))})


def _is_plain(environ: dict[str, Any]) -> bool:
    return (
        environ["REQUEST_METHOD"] == "POST"
        and not environ["QUERY_STRING"]
        and environ.get("CONTENT_TYPE") == "application/json"
        and environ.get("HTTP_ACCEPT", "") in _ACCEPTED
    )


def _principal(key: str, agent_id: str) -> Principal | None:
    """The agent whose key this is; None if it is another's, or nobody's."""
    known = selectors.credential_by_key(hash_key(key), now())
    if known is None or known.principal.kind != "agent" or known.principal.agent_id != agent_id:
        return None
    return known.principal if known.principal.may(*WORK) else None

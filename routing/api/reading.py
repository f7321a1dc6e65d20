"""What every endpoint needs to read from a request, strictly, and the one way to answer JSON."""

import datetime as dt
import re
import uuid
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from common.clock import parse_time
from common.encoding import dumps
from common.errors import BadRequest, NotFound
from common.ids import parse_id
from registry.permissions import namespace_of, principal_of
from routing.models import Task
from routing.services import admission

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def json_answer(document: Any, status: int = 200) -> HttpResponse:
    """`document` as JSON; bytes are taken for JSON already."""
    body = document if isinstance(document, bytes) else dumps(document)
    return HttpResponse(body, status=status, content_type="application/json")


def caller_of(request: Request) -> tuple[str, str | None]:
    """(namespace, client) whose tasks the caller may see; the client is None for an operator, who sees everyone's."""
    principal = principal_of(request)
    namespace = namespace_of(request)
    return namespace, None if principal.is_operator else admission.caller_of(principal)


def own_task(request: Request, task_id: str) -> uuid.UUID:
    """The id in the path, if it is one of the caller's own tasks; else NotFound, whatever the reason."""
    known = parse_id(task_id)
    namespace, client = caller_of(request)
    own: dict[str, Any] = {"namespace": namespace} | ({} if client is None else {"client": client})
    if known is None or not Task.objects.filter(id=known, **own).exists():
        raise NotFound
    return known


def number_of(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A whole number from the query; raises BadRequest."""
    given = query.get(name)
    if given is None:
        return default
    if not _NUMBER.fullmatch(given) or not least <= int(given) <= most:
        raise BadRequest(f"{name} must be a whole number from {least} to {most}")
    return int(given)


def text_of(query: Mapping[str, str], name: str) -> str | None:
    """A text from the query, None when absent or empty; raises BadRequest for what no stored text can be."""
    given = query.get(name)
    if given and ("\0" in given or any("\ud800" <= character <= "\udfff" for character in given)):
        raise BadRequest(f"{name} holds a character that no text here has")
    return given or None


def time_of(query: Mapping[str, str], name: str) -> dt.datetime | None:
    """A moment from the query; raises BadRequest."""
    given = query.get(name)
    if not given:
        return None
    try:
        found = parse_time(given)
    except ValueError as error:
        raise BadRequest(f"{name}: {error}") from None
    if not 1970 <= found.year < 9999:
        raise BadRequest(f"{name}: the time is out of range")
    return found

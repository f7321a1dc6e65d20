"""Reading requests: media type, size, strict JSON, and every field checked, before a service hears of it."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from common import json
from common.encoding import clean_text
from common.errors import BadRequest, BodyTooLarge, Invalid, UnsupportedMediaType
from common.schema import Validator
from registry.manifest import plain_numbers

JSON_TYPES = frozenset({"application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
MOST = 200
USUAL = 50
LONGEST_NAME = 100
LIKENESS = 0.6  # of 1; createdafter and created_after have 0.96, stat and state 0.89
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\";\s]*)\"?", re.IGNORECASE)
_LIMIT = re.compile(r"[0-9]{1,6}")
_TRUE, _FALSE = ("1", "true"), ("0", "false", "")


def read_body(request: Request, types: frozenset[str] = JSON_TYPES) -> tuple[bytes, str]:
    """The raw body and its media type. Raises UnsupportedMediaType (also for a charset but UTF-8) and BodyTooLarge."""
    given = str(request.META.get("CONTENT_TYPE") or "")
    media_type = given.partition(";")[0].strip().lower()
    if media_type not in types:
        raise UnsupportedMediaType(f"send the body as {' or '.join(sorted(types))}")
    charset = _CHARSET.search(given)
    if charset and charset[1].lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType("the only charset read here is UTF-8")
    raw: bytes = request.body
    if len(raw) > settings.REACH_MAX_BODY_BYTES:
        raise BodyTooLarge(settings.REACH_MAX_BODY_BYTES)
    return raw, media_type


def json_object(request: Request, validator: Validator, *, may_be_empty: bool = False) -> dict[str, Any]:
    """The body as an object that fits the validator, numbers as int or float. Raises MalformedJson and Invalid."""
    if may_be_empty and not request.body:
        body: dict[str, Any] = {}
    else:
        body = json.parse_object(read_body(request)[0])
    errors = validator.errors(body)
    if errors:
        raise Invalid(errors)
    checked: dict[str, Any] = plain_numbers(body)
    return checked


def refuse_misspelt_query(request: Request, known: Iterable[str], several: Iterable[str] = ()) -> None:
    """Raises BadRequest for a query parameter that looks like a `known` one misspelt or holds control characters, and
    for a known one that is given twice and is not among `several`.

    Names that look like none are let pass: proxies and clients add some of their own.
    """
    by_lower = {name.lower(): name for name in (*known, "namespace")}
    for name, values in request.query_params.lists():
        if not name.isprintable():
            raise BadRequest("a query parameter's name holds control characters")
        if name not in by_lower.values():
            close = get_close_matches(name.lower()[:LONGEST_NAME], by_lower, 1, LIKENESS)
            if close:
                shown = clean_text(name, LONGEST_NAME)
                raise BadRequest(f"there is no query parameter {shown} here; did you mean {by_lower[close[0]]}?")
        elif len(values) > 1 and name not in several:
            raise BadRequest(f"the query parameter {name} stands there {len(values)} times; give it once")


def choice_of(request: Request, name: str, choices: Sequence[str]) -> str:
    """A query parameter that is one of the choices, the first of them when absent. Raises BadRequest."""
    given = request.query_params.get(name, choices[0])
    if given not in choices:
        raise BadRequest(f"{name} must be one of {', '.join(choices)}")
    return str(given)


def flag(request: Request, name: str) -> bool:
    """A query parameter that is 1 or true, 0, false or absent. Raises BadRequest."""
    value = request.query_params.get(name, "").lower()
    if value not in _TRUE + _FALSE:
        raise BadRequest(f"{name} must be 1 or 0")
    return value in _TRUE


def text_parameter(request: Request, name: str, longest: int = 200) -> str | None:
    """A query parameter without control characters, or None. Raises BadRequest."""
    value = request.query_params.get(name)
    if value is not None and (len(value) > longest or not value.isprintable()):
        raise BadRequest(f"{name} must be at most {longest} printable characters")
    return str(value) if value else None


def limit_of(request: Request) -> int:
    """The page size, 1 to 200, by default 50. Raises BadRequest."""
    text = request.query_params.get("limit")
    if text is None:
        return USUAL
    if not (_LIMIT.fullmatch(text) and text.isascii() and 1 <= int(text) <= MOST):
        raise BadRequest(f"limit must be 1 to {MOST}")
    return int(text)

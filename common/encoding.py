"""Writing JSON and showing text: what may leave the platform always leaves it as valid UTF-8 JSON."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from common.clock import rfc3339

_ENCODER = msgspec.json.Encoder(decimal_format="number", uuid_format="canonical")
_UNCHANGED = frozenset({str, int, bool, type(None), float, Decimal, UUID, msgspec.Raw})
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def dumps(obj: object) -> bytes:
    """Compact UTF-8 JSON; Decimals stay exact numbers, datetimes become RFC 3339, msgspec.Raw is put in untouched.

    Half surrogate pairs, which UTF-8 cannot hold, become U+FFFD. Raises TypeError for types that JSON does not know and
    ValueError for a Decimal that is not finite.
    """
    tree = _writable(obj)
    try:
        return _ENCODER.encode(tree)
    except UnicodeEncodeError:
        return _ENCODER.encode(storable(tree))


def _writable(value: Any) -> Any:
    """The same tree in types that msgspec writes as they should be."""
    if type(value) in _UNCHANGED:
        return value
    if isinstance(value, dict):
        return {key if type(key) is str else _key(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    """Times as text, and subclasses, which msgspec does not know, as their base."""
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Decimal):
        return Decimal(value)
    return str.__str__(value) if isinstance(value, str) else value


def _key(key: object) -> str:
    if isinstance(key, UUID):
        return str(key)
    if isinstance(key, str):
        return str.__str__(key)
    raise TypeError(f"a JSON key is text, not {type(key).__name__}")


def storable(value: Any) -> Any:
    """The same tree with NUL and half surrogate pairs, which PostgreSQL and UTF-8 refuse, as U+FFFD; keys too."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    return value


def clean_text(text: str, limit: int) -> str:
    """Text for a page, a log or a row: control characters (but tab and line ends) and half surrogate pairs become
    U+FFFD; longer than `limit` characters it is cut and ends in an ellipsis."""
    if len(text) > limit:
        text = text[: max(limit - 1, 0)] + "…"
    return _UNSHOWABLE.sub("\ufffd", text)


def pointer(path: list[str | int] | tuple[str | int, ...]) -> str:
    """A JSON Pointer (RFC 6901) of the steps into a document; the document itself is the empty text."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)

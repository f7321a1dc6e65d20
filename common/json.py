"""Strict JSON (RFC 8259): what one parser reads here, every later parser, PostgreSQL and the agent read alike.

Refused: bad syntax, other encodings than UTF-8, a byte order mark, NaN and Infinity, numbers beyond a float, integers
of over 4300 digits, NUL and half surrogate pairs in strings and keys, nesting over 64, duplicate keys at any depth.
"""

import json
import re
from decimal import Decimal
from itertools import accumulate
from typing import Any

import msgspec

from common.encoding import clean_text, dumps, pointer, storable
from common.errors import MalformedJson

__all__ = [
    "BadAnswer", "as_object", "clean_text", "dumps", "parse", "parse_lenient", "parse_object", "raw_fields",
    "raw_items", "same",
]  # fmt: skip

MAX_DEPTH = 64
MAX_DIGITS = 4300

_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = b"{}[]"
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_STEP = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}
_SUSPECT_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_INFINITIES = (float("inf"), float("-inf"))
_ZERO = Decimal(0)
_KINDS = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
_BAD_CHARACTER = re.compile("[\x00\ud800-\udfff]")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class BadAnswer(ValueError):
    """An agent's answer that is not JSON; the text says why."""


class _Refused(ValueError):
    """Stops the fast parse; the slow one then finds out what and where."""


def parse(raw: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON document: int, Decimal for every other number, str, bool, None, list, dict.

    Raises MalformedJson, whose text names what is wrong and where (line and column, or a JSON Pointer).
    """
    if raw.startswith(_BOM):
        raise MalformedJson("a byte order mark stands before the JSON text; send plain UTF-8")
    value = _parse(raw, max_depth)
    if _SUSPECT_ESCAPE.search(raw):
        _refuse_bad_characters(value)
    return value


def parse_object(raw: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """As `parse`, for a body that must be an object; raises MalformedJson also for every other value."""
    return as_object(parse(raw, max_depth=max_depth))


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else MalformedJson is raised."""
    if not isinstance(value, dict):
        raise MalformedJson(f"a JSON object is needed here, not {_KINDS.get(type(value), 'a number')}", pointer="")
    return value


def parse_lenient(raw: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """The value of an agent's answer: as `parse`, but a byte order mark is skipped, and NUL and half surrogate pairs
    become U+FFFD. Raises BadAnswer with the reason."""
    try:
        value = _parse(raw.removeprefix(_BOM), max_depth)
    except MalformedJson as error:
        raise BadAnswer(error.detail) from None
    return storable(value) if _SUSPECT_ESCAPE.search(raw) else value


def _parse(raw: bytes, max_depth: int) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}") from None
    _refuse_depth(raw, max_depth)
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error) from None
    except ValueError:
        raise _explain(text) from None


def _refuse_depth(raw: bytes, max_depth: int) -> None:
    """Refuse deep nesting before a recursive parser sees it."""
    if raw.count(b"{") + raw.count(b"[") <= max_depth:
        return
    brackets = _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > max_depth:
        raise MalformedJson(f"nested deeper than {max_depth} levels")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Refused
    return members


def _decimal(text: str) -> Decimal:
    rough = float(text)
    if rough in _INFINITIES:
        raise _Refused
    # What a float takes for 0 is 0 here too: an exponent of a thousand million digits is legal JSON and a trap.
    return Decimal(text) if rough else _ZERO


def _constant(text: str) -> Any:
    raise _Refused


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_float=_decimal, parse_constant=_constant)


def _syntax_error(text: str, error: json.JSONDecodeError) -> MalformedJson:
    if not text.strip(" \t\r\n"):
        return MalformedJson("the body is empty; a JSON document was expected")
    what = (
        "more text after the end of the document"
        if error.msg == "Extra data"
        else error.msg[:1].lower() + error.msg[1:]
    )
    return MalformedJson(f"{what} at line {error.lineno}, column {error.colno}", line=error.lineno, column=error.colno)


class _Members(list[tuple[str, Any]]):
    """An object's members as written, repeated ones too."""


class _Fault(str):
    """Stands where a value may not be used, and says why."""


def _explain(text: str) -> MalformedJson:
    """Read again, slowly, a document that the fast parse refused, to name the first thing that is wrong."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_Members,
        parse_float=lambda digits: (
            _Fault(f"the number {clean_text(digits, 40)} is out of range") if _beyond(digits) else 0
        ),
        parse_int=lambda digits: _Fault(f"an integer of over {MAX_DIGITS} digits") if len(digits) > MAX_DIGITS else 0,
        parse_constant=lambda name: _Fault(f"{name} is no JSON number"),
    )
    try:
        found = _first_fault(decoder.decode(text), ())
    except json.JSONDecodeError as error:
        return _syntax_error(text, error)
    what, path = found or ("a value that cannot be used", ())
    return MalformedJson(f"{what} at {pointer(path) or 'the root'}", pointer=pointer(path))


def _beyond(digits: str) -> bool:
    return float(digits) in _INFINITIES


def _first_fault(value: Any, path: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]] | None:
    if isinstance(value, _Fault):
        return str(value), path
    if isinstance(value, _Members):
        seen: set[str] = set()
        for key, _ in value:
            if key in seen:
                return "a duplicate key", (*path, key)
            seen.add(key)
        items: Any = value
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return None
    return next((found for key, item in items if (found := _first_fault(item, (*path, key)))), None)


def _refuse_bad_characters(value: Any, path: tuple[str | int, ...] = ()) -> None:
    if isinstance(value, str) and (match := _BAD_CHARACTER.search(value)):
        what = "NUL (\\u0000)" if match[0] == "\0" else f"half a surrogate pair (\\u{ord(match[0]):04x})"
        where = clean_text(pointer(path), 200)
        raise MalformedJson(f"{what} at {where or 'the root'}", pointer=where)
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_bad_characters(key, (*path, key))
            _refuse_bad_characters(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_bad_characters(item, (*path, index))


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal by value: 1 is 1.0, true is not 1, the order of keys does not matter."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(item, b[key]) for key, item in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def raw_fields(raw: bytes, names: tuple[str, ...] | list[str] | set[str]) -> dict[str, bytes]:
    """The exact bytes of the named top-level members of an object that `parse` accepted; absent ones are left out."""
    fields = _FIELDS.decode(raw)
    return {name: bytes(fields[name]) for name in names if name in fields}


def raw_items(raw: bytes, name: str) -> list[bytes]:
    """The exact bytes of each element of the top-level array `name` of an object that `parse` accepted."""
    return [bytes(item) for item in _ITEMS.decode(_FIELDS.decode(raw)[name])]

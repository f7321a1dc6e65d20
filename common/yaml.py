"""The YAML that manifests, route tables and settings are written in: what it looks like is what it says.

Scalars follow JSON: `true`, `false`, `null` (also `~` and nothing), integers and decimal numbers as JSON spells them.
Everything else stays the text as written: `no`, `on`, `22:22`, `0123`, `+5`, `0x1f`, dates. A number with a point or an
exponent is a `Number`, which keeps its spelling in `.source`, so that a version `1.10` can be given back as "1.10"; an
integer's spelling is its `str`. Refused: anchors, aliases, merge keys, tags, duplicate or non-text keys, several
documents, nesting over 64, infinities and NaN, NUL, and any encoding but UTF-8.
"""

import codecs
import re
from decimal import Decimal
from typing import Any, NoReturn

import yaml

from common.encoding import clean_text
from common.errors import MalformedYaml

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_DIGITS = 4300

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Number(Decimal):
    """A decimal number that remembers how it was written."""

    source: str

    def __new__(cls, source: str) -> "Number":
        number = super().__new__(cls, source if float(source) else 0)
        number.source = source
        return number


def parse(raw: bytes, *, mapping: bool = True, max_bytes: int = MAX_BYTES) -> Any:
    """The value of a YAML document: dict, list, str, int, Number, bool, None; the top must be a mapping unless told so.

    Raises MalformedYaml with line and column for every kind of failure.
    """
    text = _text(raw, max_bytes)
    try:
        value = _Document(text).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = clean_text(error.problem or error.context or "not YAML", 200)
        raise MalformedYaml(what, *((mark.line + 1, mark.column + 1) if mark else ())) from None
    except yaml.YAMLError as error:
        raise MalformedYaml(
            clean_text(str(error).split("\n")[0], 200), *_place(text, getattr(error, "position", 0))
        ) from None
    if mapping and not isinstance(value, dict):
        raise MalformedYaml("the document must be a mapping (`key: value` lines)")
    return value


def plain(value: Any) -> Any:
    """The same tree with every Number as a plain Decimal."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return Decimal(value) if isinstance(value, Number) else value


def _text(raw: bytes, max_bytes: int) -> str:
    """The document's text without byte order mark, checked for what libyaml would let pass or report without a
    place."""
    if len(raw) > max_bytes:
        raise MalformedYaml(f"the document may have at most {max_bytes} bytes")
    if raw.startswith(_UTF16):
        raise MalformedYaml("UTF-16 is not read here; send UTF-8")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        raise MalformedYaml(f"not UTF-8 (0x{raw[error.start]:02x})", *_place(before, len(before))) from None
    if "\0" in text:
        raise MalformedYaml("NUL is not text", *_place(text, text.index("\0")))
    return text


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    line_start = max(before.rfind("\n"), before.rfind("\r")) + 1
    return len(re.findall("\r\n|\r|\n", before)) + 1, len(before) - line_start + 1


def _refuse(what: str, event: yaml.Event) -> NoReturn:
    mark = event.start_mark
    raise MalformedYaml(what, *((mark.line + 1, mark.column + 1) if mark else ()))


class _Document:
    """Builds one value from libyaml's events, one event at a time, so that a bad document stops early."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=_Loader)

    def read(self) -> Any:
        next(self._events)  # the start of the stream
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            _refuse("the document is empty", start)
        value = self._value(next(self._events), 0)
        next(self._events)  # the end of the document
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            _refuse("only one document is read at a time", after)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            _refuse(f"aliases (*{clean_text(str(event.anchor), 40)}) are not read here", event)
        if event.anchor is not None:
            _refuse(f"anchors (&{clean_text(event.anchor, 40)}) are not read here", event)
        if event.tag is not None:
            _refuse(f"tags ({clean_text(event.tag, 60)}) are not read here", event)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if depth >= MAX_DEPTH:
            _refuse(f"nested deeper than {MAX_DEPTH} levels", event)
        return self._mapping(depth + 1) if isinstance(event, yaml.MappingStartEvent) else self._sequence(depth + 1)

    def _sequence(self, depth: int) -> list[Any]:
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth))
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._value(event, depth) if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) else None
            if not isinstance(event, yaml.ScalarEvent):
                _refuse("a key must be text", event)
            if not isinstance(key, str):
                _refuse(f"a key must be text; put {clean_text(event.value, 40) or 'it'} in quotes", event)
            if key == "<<" and _is_plain(event):
                _refuse("merge keys (<<) are not read here", event)
            if key in members:
                _refuse(f"the key {clean_text(key, 60)} is there twice", event)
            members[key] = self._value(next(self._events), depth)
        return members


def _is_plain(event: yaml.ScalarEvent) -> bool:
    """Whether a scalar stands there without quotes or block marks."""
    return bool(event.implicit[0])


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if "\0" in text:
        _refuse("NUL is not text", event)
    if _SURROGATE.search(text):
        _refuse("half a surrogate pair is not text", event)
    if not _is_plain(event):
        return text
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_DIGITS:
            _refuse(f"an integer of over {MAX_DIGITS} digits", event)
        return int(text)
    if _NUMBER.fullmatch(text):
        if abs(float(text)) == float("inf"):
            _refuse(f"the number {clean_text(text, 40)} is out of range", event)
        return Number(text)
    if _NOT_FINITE.fullmatch(text):
        _refuse(f"{text} is no number here", event)
    return text

"""What changed between two manifests: a JSON Patch (RFC 6902) for programs, a table and a text for people. Pure."""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from common.encoding import pointer
from common.json import same

Operation = dict[str, Any]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """One place of a document, as people read it; `before` or `after` is None where there was or is nothing."""

    place: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a unified diff; `kind` is added, removed, place or same."""

    kind: str
    text: str


def json_patch(before: Any, after: Any) -> list[Operation]:
    """The operations (add, remove, replace) that turn `before` into `after`; lists are compared place by place."""
    return list(_patch(before, after, ()))


def text_diff(before: Any, after: Any, name_before: str, name_after: str) -> str:
    """A unified diff of both as sorted, indented JSON."""
    lines = difflib.unified_diff(_lines(before), _lines(after), name_before, name_after, lineterm="")
    return "\n".join(lines)


def changed(before: Any, after: Any) -> list[Changed]:
    """Every place that differs, in the order of `after`; items of lists that have a name are compared by it."""
    return list(_changed(before, after, ""))


def lines(text: str) -> list[Line]:
    """The lines of a unified diff without its two headings."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    return [Line(kinds.get(line[:1], "same"), line) for line in text.splitlines()[2:]]


def _changed(before: Any, after: Any, place: str) -> Iterator[Changed]:
    old, new = _named(before), _named(after)
    if old is not None and new is not None and isinstance(before, dict) == isinstance(after, dict):
        for key in [*new, *(key for key in old if key not in new)]:
            below = f"{place}[{key}]" if isinstance(before, list) else f"{place}.{key}" if place else str(key)
            if key in old and key in new:
                yield from _changed(old[key], new[key], below)
            else:
                yield Changed(below, _shown(old, key), _shown(new, key))
    elif not same(before, after):
        yield Changed(place, _text(before), _text(after))


def _named(value: Any) -> dict[Any, Any] | None:
    """A mapping by key, a list of named things by name; None for what has no parts to compare by."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
        found = {str(one["name"]): one for one in value}
        return found if len(found) == len(value) else None
    return None


def _shown(parts: dict[Any, Any], key: Any) -> str | None:
    return _text(parts[key]) if key in parts else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _patch(before: Any, after: Any, path: Path) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() - after.keys():
            yield {"op": "remove", "path": pointer((*path, key))}
        for key, value in after.items():
            if key in before:
                yield from _patch(before[key], value, (*path, key))
            else:
                yield {"op": "add", "path": pointer((*path, key)), "value": value}
    elif isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _patch(old, new, (*path, index))
        for index in reversed(range(len(after), len(before))):
            yield {"op": "remove", "path": pointer((*path, index))}
        for value in after[len(before) :]:
            yield {"op": "add", "path": pointer((*path, "-")), "value": value}
    elif not same(before, after):
        yield {"op": "replace", "path": pointer(path), "value": after}


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).splitlines()

"""What changed between two manifests: a JSON Patch (RFC 6902) for programs, unified text for people. Pure."""

import difflib
import json
from collections.abc import Iterator
from typing import Any

from common.encoding import pointer
from common.json import same

Operation = dict[str, Any]
Path = tuple[str | int, ...]


def json_patch(before: Any, after: Any) -> list[Operation]:
    """The operations (add, remove, replace) that turn `before` into `after`; lists are compared place by place."""
    return list(_patch(before, after, ()))


def text_diff(before: Any, after: Any, name_before: str, name_after: str) -> str:
    """A unified diff of both as sorted, indented JSON."""
    lines = difflib.unified_diff(_lines(before), _lines(after), name_before, name_after, lineterm="")
    return "\n".join(lines)


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

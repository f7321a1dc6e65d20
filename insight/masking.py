"""Payloads for people's eyes: fields that a manifest calls sensitive are covered, and nothing is longer than a page."""

import json
from typing import Any

from django.db.models import Q

from common.encoding import clean_text
from insight.journey import Journey
from registry.models import Capability
from routing.models import Candidate

COVER = "•••"
SHOWN_CHARACTERS = 64 * 1024


def sensitive_fields(found: Journey) -> list[str]:
    """JSON Pointers of every capability that may have served this task: too many covered beats one shown."""
    task = found.task
    names = {task.ability, task.ability.rpartition(".")[2], *(a.capability for a in found.attempts)}
    routed = Candidate.objects.filter(route__namespace=task.namespace, route__ability=task.ability).values("capability")
    specs = Capability.objects.filter(Q(name__in=names) | Q(name__in=routed), agent__namespace=task.namespace)
    pointers: set[str] = set()
    for spec in specs.values_list("spec", flat=True):
        pointers.update(p for p in spec.get("sensitiveFields") or () if isinstance(p, str))
    return sorted(pointers)


def masked(value: Any, pointers: list[str]) -> Any:
    """A copy of a JSON value with what the pointers name covered; `-` or `*` as a step means every element."""
    for pointer in pointers:
        value = _cover(value, [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]])
    return value


def _cover(value: Any, steps: list[str]) -> Any:
    if not steps:
        return COVER
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        return {key: _cover(item, rest) if step in (key, "*") else item for key, item in value.items()}
    if isinstance(value, list):
        # a pointer that leaves the number out still means the members
        return [
            _cover(item, rest)
            if step in (str(index), "*", "-")
            else _cover(item, steps)
            if not step.isdigit()
            else item
            for index, item in enumerate(value)
        ]
    return value


def shown(raw: bytes | memoryview | None, pointers: list[str], member: str | None = None) -> str:
    """A kept document (or one member of it), masked and laid out for reading; empty when there is none."""
    if not raw:
        return ""
    value = json.loads(bytes(raw), parse_float=_AsWritten, parse_int=_AsWritten)
    if member is not None:
        value = value.get(member) if isinstance(value, dict) else None
    if value is None:
        return ""
    # laid out first and only then stripped of the marks, so that text which looks like a mark stays text
    text = json.dumps(_plain(masked(value, pointers)), ensure_ascii=False, indent=2)
    return clean_text(_numbers(text), SHOWN_CHARACTERS)


class _AsWritten(str):
    """A number in the digits that it was sent with; pages must not round what agents receive exactly."""


_MARK = "\ue000number:"


def _plain(value: Any) -> Any:
    if isinstance(value, _AsWritten):
        return f"{_MARK}{value}"
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _numbers(text: str) -> str:
    parts = text.split(f'"{_MARK}')
    return parts[0] + "".join(number + rest for number, _, rest in (part.partition('"') for part in parts[1:]))

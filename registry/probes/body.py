"""What a body says of health, whatever the status says."""

from collections.abc import Mapping
from typing import Any

from common.errors import MalformedJson
from common.json import BadAnswer, parse_lenient
from common.outbound import Answer

KEPT_BYTES = 65_536
PREFIX = "ERROR"
BAD_WORDS = frozenset({
    "down", "error", "fail", "failed", "failing", "unhealthy", "critical", "dead", "unavailable", "not_ready",
    "not_serving", "out_of_service",
})  # fmt: skip
_NOTHING = object()


def wrong_status(status: int, wanted: int | None) -> str:
    """What is wrong with a status: another than the wanted one, or, if none is named, not 2xx."""
    if wanted is not None and status != wanted:
        return f"the status is {status}, expected {wanted}"
    if wanted is None and 300 <= status < 400:
        return f"the status is {status}; redirects are not followed"
    if wanted is None and not 200 <= status < 300:
        return f"the status is {status}"
    return ""


def wrong_body(answer: Answer, expect: Mapping[str, Any]) -> str:
    """What is wrong with a body: its beginning, what it lacks of `expect["json"]`, or a `status` that says so."""
    prefix = expect.get("notPrefix", PREFIX)
    text = answer.body.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if prefix and text.startswith(prefix):
        return f"the body begins with {prefix}: {text[:100]}"
    value = parsed(answer)
    if "json" in expect:
        return _wrong_json(value, expect["json"], answer)
    said = value.get("status") if isinstance(value, dict) else None
    if isinstance(said, str) and said.lower().replace(" ", "_").replace("-", "_") in BAD_WORDS:
        return f"the body says status {said}"
    return ""


def says_no_parts(answer: Answer) -> bool:
    """Whether a body speaks of the whole only, as `{"status":"ok"}` does: nothing inside stands for a dependency."""
    value = parsed(answer)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(part, dict | list) for part in inside)


def parsed(answer: Answer) -> Any:
    """The body's JSON value; a value that equals nothing if it is none, or was cut."""
    if answer.truncated:
        return _NOTHING
    try:
        return parse_lenient(answer.body)
    except (BadAnswer, MalformedJson):
        return _NOTHING


def is_json(value: Any) -> bool:
    """Whether `parsed` found JSON."""
    return value is not _NOTHING


def lacks(found: Any, expected: Any, at: str = "") -> str:
    """The first pointer at which `found` lacks what is expected, and how; objects may hold more than is expected."""
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return f"{at or 'the body'} is no object"
        for key, value in expected.items():
            if key not in found:
                return f"{at}/{key} is missing"
            if wrong := lacks(found[key], value, f"{at}/{key}"):
                return wrong
        return ""
    # In Python True equals 1; in JSON it does not.
    if isinstance(found, bool) != isinstance(expected, bool) or found != expected:
        return f"{at or 'the body'} is {found!r}, expected {expected!r}"
    return ""


def _wrong_json(value: Any, expected: Any, answer: Answer) -> str:
    if is_json(value):
        return lacks(value, expected)
    return f"the body is over {KEPT_BYTES} bytes" if answer.truncated else "the body is no JSON"

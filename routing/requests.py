"""Reading a request to run an ability: strict JSON, then the schema of `POST /v1/reach`, then typed access."""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from common.clock import parse_time
from common.errors import FieldErrors, Invalid, MalformedJson, ReachError
from common.json import MAX_DEPTH, as_object, parse_object, raw_fields, raw_items
from common.json import parse as parse_json
from common.schema import Validator
from routing.request_schema import BATCH, REACH

_ENVELOPE_DEPTH = 2  # an item of a batch stands inside an object and an array
LAST_YEAR = 9000  # later, a time to live could lead beyond what a calendar here can say
_EMPTY: dict[str, Any] = {}

_reach = Validator(REACH)
_batch = Validator(BATCH)

_NAME = "needs 1 to 128 printable characters without a space at either end"
# Rules that a pattern or a list of alternatives states less plainly; a token is not repeated back.
_PLAINLY = {
    ("/target", "ONE_OF"): "needs exactly one of ability and intent",
    ("/callback", "ONE_OF"): "needs url with type http, or topic (and neither url nor authToken) with type stream",
    ("/callback/authToken", "PATTERN"): "needs printable ASCII without a space at either end",
    ("/correlationId", "PATTERN"): _NAME,
    ("/sessionId", "PATTERN"): _NAME,
    ("/traceId", "PATTERN"): "needs 1 to 64 of A-Z a-z 0-9 . _ -",
}


@dataclass(frozen=True)
class ReachRequest:
    """One request that passed the schema: `raw` as received, `value` parsed, and its members by their own names.

    Times to live and limits are whole milliseconds or None when the caller left them to the platform.
    """

    raw: bytes
    value: dict[str, Any]

    @cached_property
    def _fields(self) -> dict[str, bytes]:
        return raw_fields(self.raw, ("payload", "metadata"))

    @property
    def payload_raw(self) -> bytes:
        """The payload byte for byte."""
        return self._fields["payload"]

    @property
    def metadata_raw(self) -> bytes | None:
        """The metadata byte for byte; None when there is none."""
        return self._fields.get("metadata")

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value["payload"]
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value.get("metadata", _EMPTY)
        return found

    @property
    def target(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value["target"]
        return found

    @property
    def ability(self) -> str | None:
        return self.target.get("ability")

    @property
    def intent(self) -> str | None:
        return self.target.get("intent")

    @property
    def agent_id(self) -> str | None:
        """The agent that the caller pinned."""
        return self.target.get("agentId")

    @property
    def tags(self) -> list[str]:
        found: list[str] = self.target.get("tags", [])
        return found

    @property
    def requires(self) -> dict[str, Any]:
        found: dict[str, Any] = self.target.get("requires", _EMPTY)
        return found

    @property
    def trace_id(self) -> str | None:
        return self.value.get("traceId")

    @property
    def correlation_id(self) -> str | None:
        return self.value.get("correlationId")

    @property
    def session_id(self) -> str | None:
        return self.value.get("sessionId")

    @property
    def parent_id(self) -> uuid.UUID | None:
        given = self.value.get("parentTaskId")
        return uuid.UUID(given) if given else None

    @property
    def timeout_ms(self) -> int | None:
        return _whole(self.value.get("timeoutMs"))

    @property
    def budget_ms(self) -> int | None:
        return _whole(self.value.get("timeoutBudgetMs"))

    @property
    def ttl_ms(self) -> int | None:
        return _whole(self.value.get("ttlMs"))

    @property
    def not_before(self) -> dt.datetime | None:
        given = self.value.get("notBefore")
        return parse_time(given) if given else None

    @property
    def max_attempts(self) -> int | None:
        return _whole(self.value.get("retry", _EMPTY).get("maxAttempts"))

    @property
    def backoff_ms(self) -> int | None:
        return _whole(self.value.get("retry", _EMPTY).get("backoffMs"))

    @property
    def prefer_local(self) -> str | None:
        """The region that the caller would rather be served in."""
        return self.value.get("preferLocal")

    @property
    def fallback(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value.get("fallback", _EMPTY)
        return found

    @property
    def callback(self) -> dict[str, Any] | None:
        return self.value.get("callback")

    @property
    def priority(self) -> str:
        found: str = self.metadata.get("priority", "normal")
        return found

    @property
    def delivery(self) -> str | None:
        """`interactive` or `batch`, where the caller chose."""
        return self.metadata.get("delivery")


def parse(raw: bytes) -> ReachRequest:
    """Read one request; raises MalformedJson, or Invalid with a pointer to every field that is wrong."""
    return _checked(raw, parse_json(raw))


def parse_batch(raw: bytes) -> list[ReachRequest | ReachError]:
    """Read `{"tasks": […]}`: each item as a request or as the error that it alone gets.

    Raises MalformedJson or Invalid when the envelope itself is wrong.
    """
    try:
        envelope = parse_object(raw, max_depth=MAX_DEPTH + _ENVELOPE_DEPTH)
    except MalformedJson as error:
        return _apart(raw, error)
    _refuse(_batch.errors(envelope))
    items = zip(raw_items(raw, "tasks"), envelope["tasks"], strict=True)
    return [_or_error(_checked, item, value) for item, value in items]


def _checked(raw: bytes, value: Any) -> ReachRequest:
    _refuse([*_reach.errors(as_object(value)), *_time_errors(value)])
    return ReachRequest(raw, value)


def _refuse(errors: FieldErrors) -> None:
    if errors:
        raise Invalid([_plainer(error) for error in errors])


def _plainer(error: dict[str, str]) -> dict[str, str]:
    plain = _PLAINLY.get((error["pointer"], error["code"]))
    return {**error, "message": plain} if plain else error


def _time_errors(value: Any) -> FieldErrors:
    """A day that the calendar does not have, which no pattern finds, and a year that nobody means."""
    given = value.get("notBefore")
    if isinstance(given, str):
        try:
            far = parse_time(given).year > LAST_YEAR
        except ValueError as error:
            return [{"pointer": "/notBefore", "code": "FORMAT", "message": str(error)}]
        if far:
            return [{"pointer": "/notBefore", "code": "MAXIMUM", "message": f"must not be after {LAST_YEAR}"}]
    return []


def _apart(raw: bytes, error: MalformedJson) -> list[ReachRequest | ReachError]:
    """Read the items one by one, so that a bad one spoils only itself; raises `error` when the envelope is bad."""
    try:
        tasks = raw_fields(raw, ("tasks",))["tasks"]
        envelope = parse_object(raw.replace(tasks, b"[]", 1))
        items = raw_items(raw, "tasks")
    except (msgspec.MsgspecError, RecursionError, KeyError, MalformedJson):
        raise error from None
    _refuse(_batch.errors({**envelope, "tasks": [None] * len(items)}))
    return [_or_error(parse, item) for item in items]


def _or_error(read: Callable[..., ReachRequest], *given: Any) -> ReachRequest | ReachError:
    try:
        return read(*given)
    except ReachError as error:
        return error


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)  # 5.0 is an integer in JSON Schema

"""What an agent's HTTP answer means: a pure table.

202                        received; the result comes later
200 and other 2xx          {"status": "SUCCEEDED|FAILED", …}, or any other JSON = the data of a success
204, 205, 206, 3xx         BAD_RESPONSE
408, 504                   TIMEOUT
429, 503                   SERVICE_UNAVAILABLE, Retry-After honoured; 429 asks for time even without one
other 4xx                  REJECTED
other 5xx                  INTERNAL_ERROR
"""

import datetime as dt
import functools
from collections.abc import Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from common.backoff import retry_after
from common.encoding import clean_text
from common.errors import MalformedJson
from common.json import BadAnswer, dumps, parse, parse_lenient, raw_fields
from routing.channels.base import failed
from routing.channels.chunks import chunks_of, is_result, kept, kind_of, value_of
from routing.snapshot.model import CapabilityView
from routing.states import Certainty, TaskError
from routing.trip import Outcome

_RAN, _MAYBE_RAN = Certainty.RAN, Certainty.MAYBE_RAN
_NO_CONTENT = frozenset({204, 205, 206})
_RPC_SERVER_ERRORS = range(-32099, -31999)  # -32000 to -32099
_RPC_INTERNAL_ERROR = -32603


def classify(
    status: int, headers: Mapping[str, str], body: bytes, capability: CapabilityView, now: dt.datetime
) -> Outcome:
    """The outcome of an answer; `headers` find their values in any case of the name. Raises nothing."""
    if status == 202:
        return _accepted(headers, body, now)
    if status in _NO_CONTENT or 300 <= status < 400:
        return _bad(_no_result(status), now)
    if status >= 400:
        return _refused(status, headers, body, now)
    if kind := kind_of(headers):
        return _from_stream(kind, body, capability, now)
    return _from_body(body, capability, now)


def _bad(message: str, now: dt.datetime, details: dict[str, Any] | None = None) -> Outcome:
    return failed(TaskError.BAD_RESPONSE, _RAN, now, message, details=details)


def _no_result(status: int) -> str:
    if status < 300:
        return f"The agent answered {status}, which carries no result."
    return f"The agent answered {status}; redirects are not followed, so its registered address must be the final one."


def _accepted(headers: Mapping[str, str], body: bytes, now: dt.datetime) -> Outcome:
    poll_url = headers.get("Location")
    if not poll_url:
        value = _lenient_object(body)
        poll_url = value.get("statusUrl") if isinstance(value.get("statusUrl"), str) else None
    return Outcome("ACCEPTED", _RAN, now, poll_url=poll_url)


def _refused(status: int, headers: Mapping[str, str], body: bytes, now: dt.datetime) -> Outcome:
    said = _error_of(_lenient_object(body))
    message = f"The agent answered {status}" + (f": {said['message']}" if said["message"] else ".")
    extra = {"retryable": said["retryable"], "details": said["details"]}
    if status in (408, 504):
        return failed(TaskError.TIMEOUT, _MAYBE_RAN, now, message, **extra)
    if status in (429, 503):
        wait = retry_after(_all_values(headers, "Retry-After"), now)
        wait_ms = None if wait is None else -(-wait // dt.timedelta(milliseconds=1)) if wait else 0
        if status == 429 and wait_ms is None:
            wait_ms = 0  # whoever has too much to do asks for time, though it does not know how much
        return failed(TaskError.SERVICE_UNAVAILABLE, _RAN, now, message, retry_after_ms=wait_ms, **extra)
    code = TaskError.INTERNAL_ERROR if status >= 500 else TaskError.REJECTED
    return failed(code, _RAN, now, message, **extra)


def _all_values(headers: Mapping[str, str], name: str) -> list[str]:
    getall = getattr(headers, "getall", None)
    if getall is not None:
        return list(getall(name, []))
    return [headers[name]] if name in headers else []


def _from_stream(kind: str, body: bytes, capability: CapabilityView, now: dt.datetime) -> Outcome:
    """The last chunk with a `status` is the result; one without `data` has the chunks before it as its data."""
    chunks = chunks_of(kind, body)
    for index in range(len(chunks) - 1, -1, -1):
        value = _lenient_object(chunks[index])
        if not is_result(value):
            continue
        if value["status"] == "SUCCEEDED" and "data" not in value and index:
            value["data"] = [value_of(chunk) for chunk in chunks[:index]]
            return _from_value(value, dumps(value), capability, now)
        return _from_body(chunks[index], capability, now)
    return _bad("The agent's stream ended without a result.", now, kept(chunks))


def _from_body(body: bytes, capability: CapabilityView, now: dt.datetime) -> Outcome:
    if not body.strip():
        return _bad("The agent's answer is empty.", now)
    try:
        value, raw = _read(body)
    except BadAnswer as error:
        return _bad(f"The agent's answer is not usable JSON: {error}", now)
    return _from_value(value, raw, capability, now)


def _from_value(value: Any, raw: bytes, capability: CapabilityView, now: dt.datetime) -> Outcome:
    if not isinstance(value, dict):
        return _succeeded(value, raw, {}, capability, now)
    if "jsonrpc" in value and value.get("error") is not None:
        return _rpc_error(value["error"], now)
    status = value.get("status")
    if status == "FAILED":
        said = _error_of(value)
        message = said["message"] or "The agent reported a failure."
        return failed(TaskError.AGENT_FAILED, _RAN, now, message, retryable=said["retryable"], details=said["details"])
    if isinstance(value.get("error"), dict):
        return _bad(f"The agent answered 200 with an error inside: {_text(value['error'].get('message'))}", now)
    if status == "SUCCEEDED":
        data = raw_fields(raw, ("data",)).get("data", b"null")
        return _succeeded(value.get("data"), data, value, capability, now)
    return _succeeded(value, raw, {}, capability, now)


def _read(body: bytes) -> tuple[Any, bytes]:
    """The value and its bytes: the agent's own unless they hold what cannot be stored or sent on."""
    try:
        return parse(body), body
    except MalformedJson:
        value = parse_lenient(body)
        return value, dumps(value)


def _succeeded(
    data: Any, raw: bytes, envelope: dict[str, Any], capability: CapabilityView, now: dt.datetime
) -> Outcome:
    if capability.response_mapping:
        try:
            data = {name: _expression(path).search(data) for name, path in capability.response_mapping.items()}
            raw = dumps(data)
        except (JMESPathError, TypeError, ValueError) as error:
            return _bad(f"The response mapping does not fit the agent's answer: {error}", now)
    if capability.output is not None and (errors := capability.output.errors(data, limit=5)):
        first = errors[0]
        where = first["pointer"] or "the data"
        message = f"The agent's answer does not fit its output schema: {where}: {first['message']}"
        return _bad(message, now, {"errors": errors})
    usage, cost = envelope.get("usage"), envelope.get("cost")
    return Outcome(
        "SUCCEEDED",
        _RAN,
        now,
        data=raw,
        usage=usage if isinstance(usage, dict) else None,
        cost=cost if isinstance(cost, dict) else None,
    )


@functools.lru_cache(maxsize=4096)
def _expression(path: str) -> Any:
    return jmespath.compile(path)


def _rpc_error(error: Any, now: dt.datetime) -> Outcome:
    given = error if isinstance(error, dict) else {}
    code = given.get("code")
    passing = isinstance(code, int) and (code in _RPC_SERVER_ERRORS or code == _RPC_INTERNAL_ERROR)
    message = f"The agent answered with JSON-RPC error {_text(code)}: {_text(given.get('message'))}"
    kind = TaskError.INTERNAL_ERROR if passing else TaskError.REJECTED
    return failed(kind, _RAN, now, message, details={"agentCode": _text(code)})


def _error_of(value: dict[str, Any]) -> dict[str, Any]:
    """`message`, `retryable` and `details` of an answer's error, with the agent's own code among the details."""
    error = value.get("error")
    if not isinstance(error, dict):
        return {"message": _text(error) if isinstance(error, str) else "", "retryable": None, "details": None}
    details = dict(error["details"]) if isinstance(error.get("details"), dict) else {}
    if error.get("code") is not None:
        details["agentCode"] = _text(error["code"])
    retryable = error.get("retryable")
    return {
        "message": _text(error.get("message")),
        "retryable": retryable if isinstance(retryable, bool) else None,
        "details": details or None,
    }


def _lenient_object(body: bytes) -> dict[str, Any]:
    try:
        value = parse_lenient(body) if body.strip() else {}
    except BadAnswer:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else clean_text(value if isinstance(value, str) else str(value), 500)

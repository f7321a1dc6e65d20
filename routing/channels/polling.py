"""What is said to an agent beside its tasks: the status address of a 202, the lookup before a doubtful retry, and that
an attempt was cancelled.

| the status address answers                  | then                                                             |
|---------------------------------------------|------------------------------------------------------------------|
| 200, `status` SUCCEEDED or FAILED           | that is the result; also where the adapter makes it so           |
| 200, any other JSON object                  | not yet                                                          |
| 202, 204, 304, 408, 429, 5xx, no answer     | not yet; Retry-After is honoured                                 |
| 404, 410                                    | the agent lost it: INTERNAL_ERROR, and it may have run           |
| other 4xx, 3xx, no JSON object, not allowed | BAD_RESPONSE                                                     |
"""

import datetime as dt
from urllib.parse import quote

from yarl import URL

from common import clock, outbound
from common.addresses import MAX_URL
from common.backoff import retry_after
from common.json import BadAnswer, parse_lenient
from common.outbound import Answer, Outbound, OutboundError
from common.signing import new_nonce, sign
from routing.channels.adapter import NoFit, polled
from routing.channels.answers import classify
from routing.channels.base import failed
from routing.channels.envelope import signed_parts
from routing.snapshot.model import AdapterView, CapabilityView
from routing.states import Certainty, TaskError
from routing.trip import Outcome

CONNECT_TIMEOUT_S = 0.8
TOTAL_TIMEOUT_S = 10.0
FIRST_S, LONGEST_S = 2.0, 30.0
_ENDS = ("SUCCEEDED", "FAILED")
_LATER = frozenset({202, 204, 304, 408, 429})

Signing = tuple[str, str] | None  # access key, secret key


def status_url(sent_to: str, given: str | None) -> str | None:
    """The address that a 202 names, seen from the one that was called; None where it names none that can be asked."""
    if not given:
        return None
    try:
        found = URL(sent_to).join(URL(given))
    except ValueError:
        return None
    usable = found.scheme in ("http", "https") and found.host and len(str(found)) <= MAX_URL
    return str(found) if usable else None


def next_wait(since_receipt: dt.timedelta, asked: dt.timedelta | None = None) -> dt.timedelta:
    """2 s, doubling to 30 s: after polls at 2, 6, 14 and 30 s each wait is the time that has passed, and 2 s more."""
    seconds = min(LONGEST_S, max(0.0, since_receipt.total_seconds()) + FIRST_S)
    return max(dt.timedelta(seconds=seconds), min(asked or dt.timedelta(0), dt.timedelta(hours=1)))


async def get(out: Outbound, url: str, signing: Signing, max_bytes: int) -> Answer:
    """One signed GET. Raises OutboundError."""
    return await signed(out, "GET", url, b"", signing, max_bytes)


async def signed(out: Outbound, method: str, url: str, body: bytes, signing: Signing, max_bytes: int) -> Answer:
    """One signed request to an address of an agent's. Raises OutboundError."""
    path, query = signed_parts(url)
    headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
    if signing:
        created = int(clock.now().timestamp())
        headers |= sign(method, path, query, body, *signing, created=created, nonce=new_nonce())
    return await out.request(
        method,
        url,
        headers=headers,
        body=body,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        total_timeout_s=TOTAL_TIMEOUT_S,
        max_bytes=max_bytes,
    )


def of_status(
    answer: Answer, capability: CapabilityView, now: dt.datetime, adapter: AdapterView | None = None
) -> Outcome | dt.timedelta:
    """The attempt's outcome by its status address, or the wait that the agent asks for. The answer is read as the
    adapter makes it; one that does not fit is not the result yet."""
    if answer.status in _LATER or answer.status >= 500:
        return retry_after(answer.headers.getall("Retry-After", []), now) or dt.timedelta(0)
    if answer.status in (404, 410):
        message = f"The agent's status address answered {answer.status}: it knows nothing of the task any more."
        return failed(TaskError.INTERNAL_ERROR, Certainty.MAYBE_RAN, now, message)
    body = _mapped(adapter, answer.body)
    value = _object(body) if answer.status == 200 else None
    if value is None:
        message = f"The agent's status address answered {answer.status} without a JSON object."
        return failed(TaskError.BAD_RESPONSE, Certainty.RAN, now, message)
    if value.get("status") not in _ENDS and not ("jsonrpc" in value and value.get("error")):
        return retry_after(answer.headers.getall("Retry-After", []), now) or dt.timedelta(0)
    return classify(200, {}, body, capability, now)


def of_no_status(error: OutboundError, now: dt.datetime) -> Outcome | dt.timedelta:
    """The same where no answer came."""
    if error.kind in (outbound.BLOCKED, outbound.BAD_URL, outbound.TOO_LARGE):
        message = f"The agent's status address cannot be used: {error.kind}: {error.message}"
        return failed(TaskError.BAD_RESPONSE, Certainty.RAN, now, message)
    return dt.timedelta(0)


def lookup_url(url: str, idempotency_key: str) -> str:
    """The lookup address for one key."""
    return f"{url}{'&' if '?' in url else '?'}idempotencyKey={quote(idempotency_key, safe='')}"


def of_lookup(
    answer: Answer, capability: CapabilityView, now: dt.datetime, adapter: AdapterView | None = None
) -> Outcome | bool | None:
    """The outcome of a task that the agent has processed; False where it has not; None where it did not say. An answer
    without `processed` is read through the adapter's mapping."""
    if answer.status == 404:
        return False
    body = answer.body
    value = _object(body) if answer.status == 200 else None
    if value is not None and "processed" not in value:
        body = _mapped(adapter, body)
        value = _object(body)
    if value is None or not isinstance(value.get("processed"), bool):
        return None
    if not value["processed"]:
        return False
    return classify(200, {}, body, capability, now) if value.get("status") in _ENDS else None


def _mapped(adapter: AdapterView | None, body: bytes) -> bytes:
    """The answer as the adapter makes it, where it fits."""
    try:
        return body if adapter is None else polled(adapter, body)
    except NoFit:
        return body


def of_cancel(answer: Answer) -> bool | None:
    """Whether the agent has been told of a cancel: also where it knows nothing of the task; None where it is worth
    another try."""
    if answer.status < 300 or answer.status in (404, 409, 410):
        return True
    return None if answer.status in (408, 429) or answer.status >= 500 else False


def _object(body: bytes) -> dict[str, object] | None:
    try:
        value = parse_lenient(body)
    except BadAnswer:
        return None
    return value if isinstance(value, dict) else None

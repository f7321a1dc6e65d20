"""A hook's POST, signed by Standard Webhooks as callbacks are."""

import time
from datetime import datetime

from common import clock, outbound
from common.backoff import retry_after
from common.outbound import Answer, Outbound, OutboundError
from common.signing import webhook_headers
from registry import webhook_secrets
from registry.hooks.messages import Due, Tried, message_id

TOTAL_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
KEPT_BYTES = 1024


async def post(due: Due, out: Outbound) -> Tried:
    """Send it once."""
    at, began = clock.now(), time.perf_counter()
    try:
        answer = await out.request(
            "POST",
            due.url,
            headers=headers_of(due, at),
            body=due.body,
            connect_timeout_s=CONNECT_TIMEOUT_S,
            total_timeout_s=TOTAL_TIMEOUT_S,
            max_bytes=KEPT_BYTES,
            keep_bytes=KEPT_BYTES,
        )
    except OutboundError as error:
        return _unanswered(due, at, _ms_since(began), error)
    return answered(due, at, _ms_since(began), answer)


def headers_of(due: Due, now: datetime) -> dict[str, str]:
    """The headers of one try: another try differs in count, time and signature only."""
    signed = webhook_headers(message_id(due.id), now, due.body, webhook_secrets.good(due.secrets, now))
    return {"Content-Type": "application/json", "Reach-Delivery-Attempt": str(due.number), **signed}


def answered(due: Due, at: datetime, took_ms: int, answer: Answer) -> Tried:
    """How a try went that was answered."""
    wait = retry_after(answer.headers.getall("Retry-After", []), clock.now())
    return Tried(
        due,
        at,
        took_ms,
        status=answer.status,
        error=_error_of(answer.status),
        gone=answer.status == 410,
        retry_after_s=None if wait is None else int(wait.total_seconds()),
    )


def _error_of(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"HTTP {status}: redirects are not followed; give the final URL"
    return f"HTTP {status}"


def _unanswered(due: Due, at: datetime, took_ms: int, error: OutboundError) -> Tried:
    never = error.kind in (outbound.BLOCKED, outbound.BAD_URL)
    text = error.kind if error.kind == outbound.BLOCKED else f"{error.kind}: {error.message}"
    return Tried(due, at, took_ms, status=None, error=text, permanent=never)


def _ms_since(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)

"""Carries callbacks to their receivers: claimed → sign → POST → tried. Lives on the engine's event loop.

A receiver that named a topic is a Redis stream instead, with the same row, schedule and tries.

Receivers get their tries in turn (`common.turns`), so that one that hangs holds up nobody else. A callback that finds
no place in time goes back untried, well before its claim lapses.
"""

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Awaitable, Callable, Iterable

from callbacks import topics
from callbacks.messages import Due, Tried
from callbacks.policy import PROGRESS
from common import clock, outbound
from common.backoff import retry_after
from common.outbound import Answer, Outbound, OutboundError
from common.secrets import decrypt
from common.signing import webhook_headers
from common.turns import PER_HOST, TRY_S, Turn, Turns, receiver_of

log = logging.getLogger(__name__)

WAITING = 2000  # deliveries in line for their turn
PATIENCE_S = 8.0  # for a turn; with the time limit below it stays under the claim's 30 s
TOTAL_TIMEOUT_S = TRY_S
CONNECT_TIMEOUT_S = 3.0
KEPT_BYTES = 64 * 1024

SecretsOf = Callable[[str, str], Awaitable[list[str]]]  # namespace, client → their webhook secrets
Report = Callable[[Tried], Awaitable[object]]
Postpone = Callable[[tuple[Due, dt.datetime]], Awaitable[object]]  # and when it is due again
IsStale = Callable[[Due], Awaitable[bool]]


class Deliverer:
    """Delivers what is submitted and reports each try; `postpone` takes back what could not be tried, `is_stale` says
    whether a newer message has taken the place of one that is told on the way."""

    def __init__(
        self,
        out: Outbound,
        secrets_of: SecretsOf,
        report: Report,
        postpone: Postpone,
        *,
        is_stale: IsStale | None = None,
        per_host: int = PER_HOST,
    ):
        self._is_stale = is_stale
        self._out, self._secrets_of, self._report, self._postpone = out, secrets_of, report, postpone
        self._turns = Turns(per_host)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def room(self) -> int:
        """How many more may be submitted."""
        return max(0, WAITING - self._turns.waiting)

    def submit(self, dues: Iterable[Due]) -> None:
        """Begin to deliver; returns at once."""
        for due in dues:
            task = asyncio.get_running_loop().create_task(self._deliver(due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, at most so long."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def _deliver(self, due: Due) -> None:
        try:
            receiver = receiver_of(due.url)
            turn = await self._turns.take(receiver, PATIENCE_S)
            tried = await self._in_turn(due, turn) if turn else None
            if tried is not None:
                await self._report(tried)
                return
            wait = dt.timedelta(seconds=self._turns.again_in_s(receiver))
            await self._postpone((due, clock.now() + wait))
        except Exception:  # the claim lapses and somebody tries again
            log.exception("a callback's delivery broke off")

    async def _in_turn(self, due: Due, turn: Turn) -> Tried | None:
        """The try; None for one that came too late, as the end was told: a claim will find it superseded."""
        tried = None
        try:
            if due.schedule == PROGRESS and self._is_stale is not None and await self._is_stale(due):
                return None
            tried = await self.attempt(due)
            return tried
        finally:
            turn.end(answered=tried is None or tried.status is not None)

    async def attempt(self, due: Due) -> Tried:
        """Send it once."""
        at, began = clock.now(), time.perf_counter()
        if topics.is_topic(due.url):
            error = await asyncio.to_thread(topics.append, due)
            return Tried(due, at, _ms_since(began), None, error, permanent=False, answer=b"", retry_after_s=None)
        try:
            answer = await self._out.request(
                "POST",
                due.url,
                headers=request_headers(due, at, await self._secrets_of(due.namespace, due.client)),
                body=due.body,
                connect_timeout_s=CONNECT_TIMEOUT_S,
                total_timeout_s=TOTAL_TIMEOUT_S,
                max_bytes=KEPT_BYTES,
                keep_bytes=KEPT_BYTES,
            )
        except OutboundError as error:
            return _unanswered(due, at, _ms_since(began), error)
        return answered(due, at, _ms_since(began), answer)


def request_headers(due: Due, now: dt.datetime, secrets: list[str]) -> dict[str, str]:
    """The headers of one try: redeliveries differ in count, time and signature only."""
    headers = {
        "Content-Type": "application/json",
        "Reach-Delivery-Attempt": str(due.number),
        **webhook_headers(f"msg_{due.id.hex}", now, due.body, secrets),
    }
    if due.traceparent:
        headers["traceparent"] = due.traceparent
    if due.auth_token:
        headers["Authorization"] = f"Bearer {decrypt(due.auth_token)}"
    return headers


def answered(due: Due, at: dt.datetime, took_ms: int, answer: Answer) -> Tried:
    """How a try went that was answered."""
    wait = retry_after(answer.headers.getall("Retry-After", []), clock.now())
    return Tried(
        due,
        at,
        took_ms,
        status=answer.status,
        error=_error_of(answer.status),
        permanent=answer.status == 410,
        answer=answer.body,
        retry_after_s=None if wait is None else -(-wait // dt.timedelta(seconds=1)),
    )


def _error_of(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"HTTP {status}: redirects are not followed; give the final URL"
    return f"HTTP {status}"


def _unanswered(due: Due, at: dt.datetime, took_ms: int, error: OutboundError) -> Tried:
    never = error.kind in (outbound.BLOCKED, outbound.BAD_URL)
    text = error.kind if error.kind == outbound.BLOCKED else f"{error.kind}: {error.message}"
    return Tried(due, at, took_ms, status=None, error=text, permanent=never, answer=b"", retry_after_s=None)


def _ms_since(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)

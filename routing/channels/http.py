"""Push over HTTP: one signed POST, one answer."""

import asyncio
import dataclasses
import datetime as dt
import itertools
from collections.abc import Callable, Mapping

from django.conf import settings

from common import clock, outbound
from common.outbound import Answer, Outbound, OutboundError
from routing.channels.adapter import NoFit, NoSecret, headers_of, incoming, outgoing
from routing.channels.answers import classify
from routing.channels.base import Sending, failed
from routing.channels.chunks import Chunks, is_result, kept, kind_of, value_of
from routing.channels.envelope import request_body, request_headers, url_of
from routing.channels.foreign import CutShort, Foreign, translates, whole
from routing.channels.polling import status_url
from routing.snapshot.model import AdapterView
from routing.states import Certainty, TaskError
from routing.trip import Outcome

CONNECT_TIMEOUT_S = 0.8
LARGE = 64 * 1024  # answers above this are read on a thread, so that one does not stop the loop for the others


class HttpChannel:
    """Sends over a pool of kept connections; lives in the event loop that made the pool."""

    def __init__(self, out: Outbound):
        self._out = out

    async def send(self, sending: Sending) -> Outcome:
        """Send once and read the whole answer within what is left until the attempt's deadline."""
        now = clock.now()
        url = url_of(sending.instance, sending.capability)
        adapter = sending.agent.adapter
        try:
            body, own = _adapted(adapter, request_body(sending, now))
        except (NoFit, NoSecret) as error:
            return _unsendable(error, now)
        left_s = (sending.dispatch.deadline_at - now).total_seconds()
        if left_s <= 0:
            return failed(TaskError.TIMEOUT, Certainty.NOT_SENT, now, "No time was left to send it.")
        streamed = Streamed(sending.relay, adapter)
        try:
            async with streamed.silence:
                answer = await self._out.request(
                    sending.capability.method,
                    url,
                    headers={**request_headers(sending, url, body, now), **own},
                    body=body,
                    connect_timeout_s=min(CONNECT_TIMEOUT_S, left_s),
                    total_timeout_s=left_s,
                    max_bytes=settings.REACH_MAX_ANSWER_BYTES,
                    watch=streamed.part if sending.relay else None,
                )
        except OutboundError as error:
            return streamed.broke_off(unanswered(error, clock.now()))
        except TimeoutError:
            silent = f"The agent's stream fell silent for {settings.REACH_STREAM_IDLE_MS} ms."
            return streamed.broke_off(failed(TaskError.TIMEOUT, Certainty.MAYBE_RAN, clock.now(), silent))
        return await _outcome(answer, sending, url)


class Streamed:
    """What came so far of an answer in chunks; each goes to `relay` at once, but for the result and what follows it.
    `silence` ends the call when no chunk comes for too long; what only keeps the connection alive is none."""

    def __init__(self, relay: Callable[[list[bytes]], None] | None, adapter: AdapterView | None = None):
        self._relay, self._adapter = relay, adapter
        self.silence = asyncio.timeout(None)
        self._cut: Chunks | Foreign | None = None
        self._chunks: list[bytes] = []
        self._has_ended = False

    def part(self, status: int, headers: Mapping[str, str], part: bytes) -> None:
        if self._cut is None:
            kind = kind_of(headers) if 200 <= status < 300 else None
            if kind is None:
                return
            adapter = self._adapter
            self._cut = Foreign(adapter, kind) if adapter is not None and translates(adapter) else Chunks(kind)
            self._heard()
        found = self._cut.feed(part)
        if found:
            self._heard()
        self._chunks += found
        if self._relay is not None and not self._has_ended:
            self._relay(list(itertools.takewhile(self._is_before_the_end, found)))

    def _is_before_the_end(self, chunk: bytes) -> bool:
        self._has_ended = is_result(value_of(chunk))
        return not self._has_ended

    def _heard(self) -> None:
        self.silence.reschedule(asyncio.get_running_loop().time() + settings.REACH_STREAM_IDLE_MS / 1000)

    def broke_off(self, outcome: Outcome) -> Outcome:
        """The outcome with the part that came."""
        if not self._chunks:
            return outcome
        return dataclasses.replace(outcome, details={**(outcome.details or {}), **kept(self._chunks)})


def _adapted(adapter: AdapterView | None, body: bytes) -> tuple[bytes, dict[str, str]]:
    """The body in the agent's own form, and the headers that it wants. Raises NoFit and NoSecret."""
    return (body, {}) if adapter is None else (outgoing(adapter, body), headers_of(adapter))


def _unsendable(error: NoFit | NoSecret, now: dt.datetime) -> Outcome:
    missing = isinstance(error, NoSecret)
    message = f"The secret {error} that its headers name is not set." if missing else f"Its adapter: {error}"
    return failed(TaskError.REJECTED, Certainty.NOT_SENT, now, message)


def _classified(answer: Answer, sending: Sending, now: dt.datetime) -> Outcome:
    """What the answer means, put into the form of the contract first where the agent speaks another."""
    adapter, kind = sending.agent.adapter, kind_of(answer.headers)
    if adapter is None or answer.status not in (200, 201, 203) or (kind and not translates(adapter)):
        return classify(answer.status, answer.headers, answer.body, sending.capability, now)
    try:
        body = whole(adapter, kind, answer.body) if kind else incoming(adapter, answer.body)
    except NoFit as error:
        details = kept(error.chunks) if isinstance(error, CutShort) and error.chunks else None
        message = f"The agent's answer does not fit: {error}"
        return failed(TaskError.BAD_RESPONSE, Certainty.RAN, now, message, details=details)
    headers = {} if kind else answer.headers
    return classify(answer.status, headers, body, sending.capability, now)


async def _outcome(answer: Answer, sending: Sending, url: str) -> Outcome:
    given = (answer, sending, clock.now())
    outcome = _classified(*given) if len(answer.body) < LARGE else await asyncio.to_thread(_classified, *given)
    timings = {
        "poolWaitMs": 0,
        "connectMs": round(answer.connect_ms),
        "agentMs": round(answer.total_ms - answer.connect_ms),
    }
    poll_url = status_url(url, outcome.poll_url)
    return dataclasses.replace(outcome, received_at=answer.first_byte_at, timings=timings, poll_url=poll_url)


def unanswered(error: OutboundError, now: dt.datetime) -> Outcome:
    """The outcome of a request that got no full answer."""
    certainty = Certainty.MAYBE_RAN if error.sent else Certainty.NOT_SENT
    message = f"{error.kind}: {error.message}"
    if error.kind == outbound.TIMEOUT:
        return failed(TaskError.TIMEOUT, certainty, now, f"The agent did not answer in time ({error.message}).")
    if error.kind == outbound.TOO_LARGE or (error.kind == outbound.BROKEN and error.answered):
        return failed(TaskError.BAD_RESPONSE, Certainty.RAN, now, f"The agent's answer was not whole: {message}")
    return failed(TaskError.UNREACHABLE, certainty, now, f"The agent could not be reached: {message}")

"""Push over HTTP: one signed POST, one answer."""

import asyncio
import dataclasses
import datetime as dt

from django.conf import settings

from common import clock, outbound
from common.outbound import Answer, Outbound, OutboundError
from routing.channels.answers import classify
from routing.channels.base import Sending, failed
from routing.channels.envelope import request_body, request_headers, url_of
from routing.channels.polling import status_url
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
        body = request_body(sending, now)
        left_s = (sending.dispatch.deadline_at - now).total_seconds()
        if left_s <= 0:
            return failed(TaskError.TIMEOUT, Certainty.NOT_SENT, now, "No time was left to send it.")
        try:
            answer = await self._out.request(
                sending.capability.method,
                url,
                headers=request_headers(sending, url, body, now),
                body=body,
                connect_timeout_s=min(CONNECT_TIMEOUT_S, left_s),
                total_timeout_s=left_s,
                max_bytes=settings.REACH_MAX_ANSWER_BYTES,
            )
        except OutboundError as error:
            return unanswered(error, clock.now())
        return await _outcome(answer, sending, url)


async def _outcome(answer: Answer, sending: Sending, url: str) -> Outcome:
    given = (answer.status, answer.headers, answer.body, sending.capability, clock.now())
    outcome = classify(*given) if len(answer.body) < LARGE else await asyncio.to_thread(classify, *given)
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

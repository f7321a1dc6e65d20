"""Push over a websocket: the platform connects, sends the request as one text message, and reads until the result.

| message                                             | what it does                                          |
|-----------------------------------------------------|-------------------------------------------------------|
| {"type": "receipt", "attemptKey"}                   | the task is RUNNING                                   |
| {"type": "progress", "attemptKey", "percent", …}    | as the report by API                                  |
| {"type": "chunk", "attemptKey", "data"}             | `data` is relayed                                     |
| {"type": "result", "attemptKey", "status", "data"…} | the end; without `data` the chunks before it are that |

Messages are read one after the other, so a peer that sends faster than they are dealt with has to wait. One that is not
understood ends the attempt as BAD_RESPONSE; one of another attempt is passed over.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
from typing import Any

from django.conf import settings

from common import clock
from common.json import BadAnswer, dumps, parse_lenient, raw_fields
from common.outbound import Outbound, OutboundError, Refused, WebSocket
from routing.channels.adapter import NoSecret, headers_of
from routing.channels.answers import classify
from routing.channels.base import PROGRESS, RECEIPT, Sending, failed
from routing.channels.chunks import ENDS, kept, value_of
from routing.channels.envelope import request_body, request_headers, url_of
from routing.channels.http import CONNECT_TIMEOUT_S, unanswered
from routing.states import Certainty, TaskError
from routing.trip import Outcome

PING_S = 20.0
FAREWELL_S = 1.0  # for telling the peer that its task was cancelled


class WebsocketChannel:
    """One connection an attempt."""

    def __init__(self, out: Outbound):
        self._out = out

    async def send(self, sending: Sending) -> Outcome:
        """Connect, send, and read until the result or the attempt's deadline."""
        now = clock.now()
        left_s = (sending.dispatch.deadline_at - now).total_seconds()
        if left_s <= 0:
            return failed(TaskError.TIMEOUT, Certainty.NOT_SENT, now, "No time was left to send it.")
        talk = _Talk(sending)
        try:
            async with asyncio.timeout(left_s):
                return await self._talk(sending, talk, now)
        except TimeoutError:
            certainty = Certainty.MAYBE_RAN if talk.is_sent else Certainty.NOT_SENT
            return talk.broke_off(
                failed(TaskError.TIMEOUT, certainty, clock.now(), "The agent did not answer in time.")
            )
        except NoSecret as error:
            message = f"The secret {error} that its headers name is not set."
            return failed(TaskError.REJECTED, Certainty.NOT_SENT, clock.now(), message)
        except Refused as refused:
            return _refused(refused, sending)
        except OutboundError as error:
            return talk.broke_off(unanswered(error, clock.now()))

    async def _talk(self, sending: Sending, talk: "_Talk", now: dt.datetime) -> Outcome:
        url = url_of(sending.instance, sending.capability)
        own = headers_of(sending.agent.adapter) if sending.agent.adapter else {}
        connected = self._out.websocket(
            url,
            headers={**request_headers(sending, url, b"", now, method="GET"), **own},
            connect_timeout_s=CONNECT_TIMEOUT_S,
            max_bytes=settings.REACH_MAX_ANSWER_BYTES,
            ping_s=PING_S,
        )
        async with connected as socket:
            try:
                talk.is_sent = True
                await socket.send(request_body(sending, now).decode())
                return await talk.listen(socket)
            except asyncio.CancelledError:
                await _say_cancelled(socket, sending)
                raise


class _Talk:
    """What came so far over one connection."""

    def __init__(self, sending: Sending):
        self._sending = sending
        self._key = str(sending.dispatch.attempt_key)
        self._chunks: list[bytes] = []
        self._size = 0
        self._first_at: dt.datetime | None = None
        self.is_sent = False

    async def listen(self, socket: WebSocket) -> Outcome:
        """The outcome of the result, or of a message that makes no sense."""
        while True:
            text = await socket.receive()
            self._first_at = self._first_at or clock.now()
            self._size += len(text or b"")
            if self._size > settings.REACH_MAX_ANSWER_BYTES:
                return self._bad(f"its messages are over {settings.REACH_MAX_ANSWER_BYTES} bytes")
            message = _object(text)
            if message is None or text is None:
                return self._bad("a message is no JSON object")
            if message.get("attemptKey") != self._key:
                continue
            outcome = self._read(message, text)
            if outcome is not None:
                return dataclasses.replace(outcome, received_at=self._first_at)

    def broke_off(self, outcome: Outcome) -> Outcome:
        """The outcome with the part that came."""
        if not self._chunks:
            return outcome
        return dataclasses.replace(outcome, details={**(outcome.details or {}), **kept(self._chunks)})

    def _read(self, message: dict[str, Any], text: bytes) -> Outcome | None:
        kind, sending = message.get("type"), self._sending
        if kind in (RECEIPT, PROGRESS):
            if sending.report is not None:
                sending.report(kind, text)
            return None
        if kind == "chunk":
            chunk = raw_fields(text, ("data",)).get("data", b"null")
            self._chunks.append(chunk)
            if sending.relay is not None:
                sending.relay([chunk])
            return None
        if kind == "result" and message.get("status") in ENDS:
            if message["status"] == "SUCCEEDED" and "data" not in message and self._chunks:
                text = dumps({**message, "data": [value_of(chunk) for chunk in self._chunks]})
            return classify(200, {}, text, sending.capability, clock.now())
        return self._bad(f"a message has the type {str(kind)[:50]!r}" + (" and no status" if kind == "result" else ""))

    def _bad(self, why: str) -> Outcome:
        message = f"The agent's answer cannot be understood: {why}."
        return self.broke_off(failed(TaskError.BAD_RESPONSE, Certainty.RAN, clock.now(), message))


def _object(text: bytes | None) -> dict[str, Any] | None:
    try:
        value = parse_lenient(text) if text else None
    except BadAnswer:
        return None
    return value if isinstance(value, dict) else None


def _refused(refused: Refused, sending: Sending) -> Outcome:
    """The handshake was answered as a plain request is; the task was not sent."""
    outcome = classify(refused.status, refused.headers, b"", sending.capability, clock.now())
    if outcome.kind != "FAILED":
        message = f"The agent answered the handshake with {refused.status} and opened no websocket."
        outcome = failed(TaskError.BAD_RESPONSE, Certainty.NOT_SENT, clock.now(), message)
    return dataclasses.replace(outcome, certainty=Certainty.NOT_SENT)


async def _say_cancelled(socket: WebSocket, sending: Sending) -> None:
    with contextlib.suppress(OutboundError, TimeoutError):
        async with asyncio.timeout(FAREWELL_S):
            await socket.send(dumps({"type": "cancel", "attemptKey": str(sending.dispatch.attempt_key)}).decode())

"""Push into this very process: a function that the operator named in REACH_FUNCTIONS, called on a thread of its own.

The function gets the task request as a dict, and, if it takes a second argument, a `Call` to report on. What it returns
is read as an agent's answer; what it raises is its internal error. Python cannot end a thread: after the time limit the
attempt is over, and the thread goes on until it is done by itself.
"""

import asyncio
import functools
import importlib
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from django.conf import settings

from common import clock
from common.json import dumps, parse
from common.outbound import Outbound
from routing.channels.answers import classify
from routing.channels.base import LATE, PROGRESS, RECEIPT, Sending, failed
from routing.channels.chunks import ENDS
from routing.channels.envelope import request_body
from routing.states import Certainty, TaskError
from routing.trip import Outcome

log = logging.getLogger(__name__)

AT_ONCE = 32  # threads; those that outlived their time count
AGAIN_MS = 1000


class Call:
    """What a function may say and ask while it runs; safe from its thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sending: Sending):
        self._loop, self._sending = loop, sending
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the result any more: it was cancelled, or its time is over."""
        return self._over.is_set()

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Tell how far it is."""
        self._report(PROGRESS, dumps({"percent": percent, "message": message}))

    def chunk(self, data: Any) -> None:
        """Hand on a part of the result at once."""
        relay = self._sending.relay
        if relay is not None and not self.is_over:
            self._loop.call_soon_threadsafe(relay, [dumps(data)])

    def _report(self, kind: str, body: bytes) -> None:
        report = self._sending.report
        if report is not None and not self.is_over:
            self._loop.call_soon_threadsafe(report, kind, body)

    def _end(self) -> None:
        self._over.set()


class FunctionChannel:
    """Calls the function whose name is `{agentId}.{capability}`, else the capability's."""

    def __init__(self, out: Outbound):
        self._free = AT_ONCE

    async def send(self, sending: Sending) -> Outcome:
        """Call it and wait for its end or the attempt's deadline."""
        now = clock.now()
        left_s = (sending.dispatch.deadline_at - now).total_seconds()
        try:
            function = _function(sending.dispatch.agent_id, sending.dispatch.capability)
        except LookupError as error:
            return failed(TaskError.REJECTED, Certainty.NOT_SENT, now, str(error))
        if left_s <= 0:
            return failed(TaskError.TIMEOUT, Certainty.NOT_SENT, now, "No time was left to call it.")
        if self._free <= 0:
            message = f"All {AT_ONCE} threads for functions are in use."
            return failed(TaskError.SERVICE_UNAVAILABLE, Certainty.NOT_SENT, now, message, retry_after_ms=AGAIN_MS)
        return await self._call(function, sending, left_s)

    async def _call(self, function: Callable[..., Any], sending: Sending, left_s: float) -> Outcome:
        loop = asyncio.get_running_loop()
        call, done = Call(loop, sending), loop.create_future()
        body = request_body(sending, clock.now())

        def finish(answer: bytes | Outcome) -> None:
            self._free += 1
            if not done.done():
                done.set_result(answer)
            elif isinstance(answer, bytes) and sending.report is not None:
                sending.report(LATE, answer)

        self._free -= 1
        threading.Thread(target=_run, args=(function, body, call, loop, finish), name="function", daemon=True).start()
        call._report(RECEIPT, b"{}")
        try:
            async with asyncio.timeout(left_s):
                answer = await done
        except TimeoutError:
            message = "The function did not return in time."
            return failed(TaskError.TIMEOUT, Certainty.MAYBE_RAN, clock.now(), message)
        finally:
            call._end()
        return answer if isinstance(answer, Outcome) else classify(200, {}, answer, sending.capability, clock.now())


def _run(
    function: Callable[..., Any], body: bytes, call: Call, loop: asyncio.AbstractEventLoop, finish: Callable[..., None]
) -> None:
    """On the thread: call, and hand the answer to the loop."""
    answer: bytes | Outcome
    try:
        given = (parse(body), call) if _takes_two(function) else (parse(body),)
        value = function(*given)
        answer = dumps(asyncio.run(value) if inspect.iscoroutine(value) else value)
    except Exception as error:
        log.warning("a function failed: %s", type(error).__name__, exc_info=True)
        message = f"The function raised {type(error).__name__}: {error}"
        answer = failed(TaskError.INTERNAL_ERROR, Certainty.RAN, clock.now(), message)
    try:
        loop.call_soon_threadsafe(finish, answer)
    except RuntimeError:
        pass  # the worker has stopped


def _function(agent_id: str, capability: str) -> Callable[..., Any]:
    """Raises LookupError, which says what is missing."""
    known: dict[str, str] = settings.REACH_FUNCTIONS
    path = known.get(f"{agent_id}.{capability}") or known.get(capability)
    if path is None:
        raise LookupError(f"REACH_FUNCTIONS has neither {agent_id}.{capability} nor {capability}.")
    try:
        return _imported(path)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"The function {path} cannot be imported: {error}") from None


@functools.lru_cache(maxsize=1024)
def _imported(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


@functools.lru_cache(maxsize=1024)
def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def late_result(answer: bytes, attempt_key: str) -> bytes:
    """The report of an answer that came after its time, as the API takes it."""
    value = parse(answer)
    is_envelope = isinstance(value, dict) and value.get("status") in ENDS
    return dumps({**(value if is_envelope else {"status": "SUCCEEDED", "data": value}), "attemptKey": attempt_key})

"""What a cancel means for agents: calls of this process that were cancelled are broken off, and agents that gave an
address for it are told. Lives on the engine's event loop.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError

from common import broadcast, clock
from common.outbound import Outbound, OutboundError
from routing.channels import polling
from routing.services import notices
from routing.services.notices import NOT_TOLD, TOLD, Notice
from routing.trip import Dispatch

log = logging.getLogger(__name__)

YOUNG_S = 1.0  # calls below this age are asked after only when a message says so
LOST_EACH_S = 30.0  # how often notices are looked for that no message told of
TRIES_AFTER_S = (0.0, 2.0, 8.0)
ANSWER_BYTES = 64 * 1024

T = TypeVar("T")


class _Call:
    """One call under way."""

    __slots__ = ("dispatch", "limit", "since")

    def __init__(self, dispatch: Dispatch, limit: asyncio.Timeout):
        self.dispatch, self.limit, self.since = dispatch, limit, time.monotonic()

    @property
    def names(self) -> tuple[uuid.UUID, uuid.UUID]:
        return self.dispatch.task.task_id, self.dispatch.attempt_key


class Cancels:
    """`hurry` is set when there is something to look at before the next second."""

    def __init__(self, out: Outbound, executor: Executor):
        self._out, self._executor = out, executor
        self._loop = asyncio.get_running_loop()
        self._calls: dict[uuid.UUID, _Call] = {}  # by attempt key
        self._heard: set[uuid.UUID] = set()  # tasks
        self._lost_at = time.monotonic()
        self._tasks: set[asyncio.Task[None]] = set()
        self.hurry = asyncio.Event()
        self._listener = broadcast.Listener([notices.CHANNEL], self._on_message, lambda: None)
        self._listener.start()

    async def guard(self, dispatch: Dispatch, call: Callable[[], Awaitable[T]]) -> T | None:
        """What the call gives; None if it was broken off because its task was cancelled."""
        try:
            async with asyncio.timeout(None) as limit:
                self._calls[dispatch.attempt_key] = _Call(dispatch, limit)
                return await call()
        except TimeoutError:
            if not limit.expired():
                raise
            self._spawn(self._broken_off(dispatch))
            return None
        finally:
            self._calls.pop(dispatch.attempt_key, None)

    async def look(self) -> None:
        """Break off what was cancelled, and begin to tell who is to be told."""
        heard, self._heard = self._heard, set()
        await self._break_off(heard)
        if time.monotonic() - self._lost_at >= LOST_EACH_S:
            self._lost_at = time.monotonic()
            heard |= set(await self._on_thread(notices.lost, clock.now()))
        if heard:
            for notice in await self._on_thread(notices.take, list(heard), clock.now()):
                self._spawn(self._tell(notice))

    async def stop(self) -> None:
        """What is under way is told by others, once its lease is over."""
        self._listener.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _break_off(self, heard: set[uuid.UUID]) -> None:
        before = time.monotonic() - YOUNG_S
        asked = [one.names for one in self._calls.values() if one.since < before or one.names[0] in heard]
        if not asked:
            return
        for key in await self._on_thread(notices.cancelled, asked):
            if (call := self._calls.get(key)) is not None:
                call.limit.reschedule(self._loop.time())

    async def _broken_off(self, dispatch: Dispatch) -> None:
        detail = {"by": "connection", "channel": dispatch.channel}
        await self._note(dispatch.task.task_id, dispatch.number, TOLD, detail, by_notice=False)

    async def _tell(self, notice: Notice) -> None:
        """Try a few times, then let it be: the attempt has ended whatever the agent hears."""
        said: dict[str, Any] = {"by": "address"}
        tries = 0
        for tries, after_s in enumerate(TRIES_AFTER_S, 1):  # noqa: B007 - told below
            await asyncio.sleep(after_s)
            is_told, more = await self._told(notice)
            said |= more
            if is_told is not None:
                break
        event = TOLD if is_told else NOT_TOLD
        await self._note(notice.task_id, notice.number, event, {**said, "tries": tries}, by_notice=True)

    async def _told(self, notice: Notice) -> tuple[bool | None, dict[str, Any]]:
        if not notice.url:
            return False, {"error": "the agent has no cancel address any more"}
        try:
            answer = await polling.signed(self._out, "POST", notice.url, notice.body, notice.signing, ANSWER_BYTES)
        except OutboundError as error:
            return None, {"error": f"{error.kind}: {error.message}"}
        return polling.of_cancel(answer), {"status": answer.status}

    async def _note(self, task_id: uuid.UUID, number: int, event: str, detail: dict[str, Any], by_notice: bool) -> None:
        try:
            await self._on_thread(
                lambda: notices.note(task_id, number, event, detail, clock.now(), by_notice=by_notice)
            )
        except (DatabaseError, InterfaceError) as error:
            log.warning("that an agent was told of a cancel is not on record: %s", type(error).__name__)

    def _on_message(self, _channel: str, message: object) -> None:
        if isinstance(message, list):
            try:
                self._loop.call_soon_threadsafe(self._hear, [uuid.UUID(one) for one in message])
            except RuntimeError:
                self._listener.stop()  # the loop is gone

    def _hear(self, task_ids: Iterable[uuid.UUID]) -> None:
        self._heard.update(task_ids)
        self.hurry.set()

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_thread(self, function: Callable[..., T], *given: Any) -> T:
        return await self._loop.run_in_executor(self._executor, function, *given)

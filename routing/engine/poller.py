"""Asks agents for results that they said to ask for: due → GET → ended, or later. Lives on the engine's event loop."""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from callbacks.messages import Due
from common import clock
from common.outbound import Outbound, OutboundError
from routing.channels import polling
from routing.services import polls
from routing.services.polls import Poll
from routing.trip import Outcome

log = logging.getLogger(__name__)

AT_A_TIME = 200


class Poller:
    """`deliver` gets the callbacks of tasks that this ended."""

    def __init__(self, out: Outbound, executor: Executor, deliver: Callable[[Iterable[Due]], None]):
        self._out, self._executor, self._deliver = out, executor, deliver
        self._tasks: set[asyncio.Task[None]] = set()

    async def look(self) -> None:
        """Begin to ask whatever is due; returns at once."""
        room = AT_A_TIME - len(self._tasks)
        due = await self._on_thread(polls.claim, clock.now(), room) if room > 0 else []
        for poll in due:
            task = asyncio.get_running_loop().create_task(self._ask(poll))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """What is under way is asked again by others."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, poll: Poll) -> None:
        try:
            said = await self._answer(poll)
            now = clock.now()
            if isinstance(said, Outcome):
                settled = await self._on_thread(polls.ended, poll, said, now)
                self._deliver(settled.callbacks)
            else:
                due_at = now + polling.next_wait(now - poll.received_at, said)
                await self._on_thread(polls.later, [(poll, due_at)])
        except (DatabaseError, InterfaceError) as error:  # asked again when the claim lapses
            log.warning("an answer of a status address is lost: %s", type(error).__name__)
        except Exception:
            log.exception("a status address could not be asked", extra={"taskId": str(poll.task_id)})

    async def _answer(self, poll: Poll) -> Outcome | dt.timedelta:
        try:
            answer = await polling.get(self._out, poll.url, poll.signing, settings.REACH_MAX_ANSWER_BYTES)
        except OutboundError as error:
            return polling.of_no_status(error, clock.now())
        return polling.of_status(answer, poll.capability, clock.now(), poll.adapter)

    async def _on_thread(self, function: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *given)

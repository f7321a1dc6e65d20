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
from common.turns import Receiver, Turn, Turns
from routing.channels import polling
from routing.engine.batcher import Batcher
from routing.services import polls
from routing.services.polls import Poll
from routing.trip import Outcome

log = logging.getLogger(__name__)

AT_A_TIME = 200  # claimed at a time
MOST = 2000  # under way or in line for their turn
PATIENCE_S = 8.0  # for a turn; with the time that a question may take it stays under the claim's 30 s
LONGEST_S = 30.0  # what finds no turn comes again by then


class Poller:
    """`deliver` gets the callbacks of tasks that this ended. Instances are asked in turn (`common.turns`), so that one
    that hangs holds up no other."""

    def __init__(self, out: Outbound, executor: Executor, deliver: Callable[[Iterable[Due]], None]):
        self._out, self._executor, self._deliver = out, executor, deliver
        self._turns = Turns()
        self._later: Batcher[tuple[Poll, dt.datetime], None] = Batcher(_later, executor)
        self._tasks: set[asyncio.Task[None]] = set()

    async def look(self) -> None:
        """Begin to ask all who are due; returns at once."""
        while room := max(0, min(AT_A_TIME, MOST - len(self._tasks))):
            due = await self._on_thread(polls.claim, clock.now(), room)
            for poll in due:
                task = asyncio.get_running_loop().create_task(self._ask(poll))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if len(due) < room:
                return

    async def stop(self) -> None:
        """What is under way is asked again by others."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, poll: Poll) -> None:
        try:
            said = await self._said(poll)
            if isinstance(said, Outcome):
                settled = await self._on_thread(polls.ended, poll, said, clock.now())
                self._deliver(settled.callbacks)
            else:
                await self._later.do((poll, clock.now() + said))
        except (DatabaseError, InterfaceError) as error:  # asked again when the claim lapses
            log.warning("an answer of a status address is lost: %s", type(error).__name__)
        except Exception:
            log.exception("a status address could not be asked", extra={"taskId": str(poll.task_id)})

    async def _said(self, poll: Poll) -> Outcome | dt.timedelta:
        """The attempt's outcome, or after how long to ask again."""
        receiver = _receiver(poll)
        turn = await self._turns.take(receiver, PATIENCE_S)
        if turn is None:
            return dt.timedelta(seconds=min(self._turns.again_in_s(receiver), LONGEST_S))
        said = await self._answer(poll, turn)
        return said if isinstance(said, Outcome) else polling.next_wait(clock.now() - poll.received_at, said)

    async def _answer(self, poll: Poll, turn: Turn) -> Outcome | dt.timedelta:
        answered = False
        try:
            answer = await polling.get(self._out, poll.url, poll.signing, settings.REACH_MAX_ANSWER_BYTES)
            answered = True
        except OutboundError as error:
            return polling.of_no_status(error, clock.now())
        finally:
            turn.end(answered=answered)
        return polling.of_status(answer, poll.capability, clock.now(), poll.adapter)

    async def _on_thread(self, function: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *given)


def _receiver(poll: Poll) -> Receiver:
    """An instance: its status addresses are well or hang together."""
    name = f"{poll.facts.namespace}/{poll.facts.agent_id}/{poll.instance_id}"
    return Receiver(name, name)


def _later(given: list[tuple[Poll, dt.datetime]]) -> list[None]:
    polls.later(given)
    return [None] * len(given)

"""A task that nobody takes now: it ends, falls back on something else, or waits, without an attempt."""

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

from common import clock
from routing import pulling
from routing.choice import Choice, NoChoice
from routing.engine.records import Records
from routing.filters import LASTING
from routing.limits.slots import ABILITY_BUSY
from routing.policy import GAVE_UP_MESSAGE, end_state
from routing.services.fallback import Falling
from routing.services.sweep import LOOKUP
from routing.snapshot import Ability
from routing.states import TaskError, TaskState
from routing.trip import Claimed, GiveUp, Settlement, Substitute

LOOK_AGAIN_S = 1.0  # a task that nobody can take is looked at again after so long, later the longer it waits
LONGEST_LOOK_S = 5.0
LOOKUP_AGAIN = dt.timedelta(seconds=5)
OFFER_AGAIN = dt.timedelta(seconds=30)  # a task that nobody fetched is routed anew after so long

_NOBODY = {
    TaskError.LOOP_DETECTED: "It came back to an agent on its own path, or made too many hops.",
    TaskError.BUDGET_BELOW_SLA: "Less time is left than any agent of this ability needs.",
    TaskError.NO_INSTANCE: "No instance could take it, and its route does not wait.",
    TaskError.BREAKER_OPEN: "The breakers of its instances are open, and its route does not wait.",
}


class Postponer:
    """`retry_at` gets the time at which a task that goes on elsewhere is due."""

    def __init__(self, records: Records, retry_at: Callable[[dt.datetime], None]):
        self._records, self._retry_at = records, retry_at

    async def nobody(self, task: Claimed, ability: Ability | None, choice: NoChoice) -> None:
        """End it, let another ability do it, or let it wait."""
        give_up = _end_of(task, ability, choice)
        if give_up is None:
            await self.wait(task, choice.why, choice.decision, in_turn=choice.busy)
            return
        now = clock.now()
        after = await self._records.instead(give_up, Falling.of(task, task.attempts, side_effects=False), None)
        if isinstance(after, Substitute):
            await self._records.put_back(task.task_id, now, {**after.detail, "decision": choice.decision})
            self._retry_at(now)
            return
        await self._records.settle(Settlement(task.task_id, 0, after, None, now, worker=self._records.boot_id))

    async def wait(self, task: Claimed, why: str, decision: dict[str, Any], *, in_turn: bool = False) -> None:
        """Let it wait in the database; `in_turn` for a slot, in which it stays ahead of what came later."""
        now = clock.now()
        due_at = task.due_at if in_turn else min(now + _look_again(now - task.created_at), task.deadline_at)
        detail = None if why == task.waited_for else {"reason": why, "decision": decision}
        await self._records.put_back(task.task_id, due_at, detail)

    async def wait_for_lookup(self, task: Claimed) -> None:
        """Its agent could not be asked what became of the last attempt."""
        detail = None if task.waited_for == LOOKUP else {"reason": LOOKUP}
        await self._records.put_back(task.task_id, min(clock.now() + LOOKUP_AGAIN, task.deadline_at), detail)

    async def offer(self, task: Claimed, choice: Choice) -> None:
        """It waits until an instance of the chosen agent fetches it."""
        reason = pulling.offer_to(choice.instance.agent_id)
        due_at = min(clock.now() + OFFER_AGAIN, task.deadline_at)
        detail = None if reason == task.waited_for else {"reason": reason, "decision": choice.decision}
        await self._records.put_back(task.task_id, due_at, detail)
        pulling.tell(task.namespace, choice.instance.agent_id)

    async def give_up(self, task: Claimed, strikes: int) -> None:
        """End a task that was taken up in vain too often."""
        message = GAVE_UP_MESSAGE.format(strikes)
        give_up = GiveUp(TaskState.FAILED, TaskError.INTERNAL_ERROR, message, details={"strikes": strikes})
        worker = self._records.boot_id
        await self._records.settle(Settlement(task.task_id, 0, give_up, None, clock.now(), worker=worker))


def _end_of(task: Claimed, ability: Ability | None, choice: NoChoice) -> GiveUp | None:
    """How a task ends that nobody can take; None if it waits.

    What can be fallen back on is not waited for, unless it is only a slot that is missing.
    """
    if choice.reason in LASTING:
        return GiveUp(end_state(choice.reason), choice.reason, _NOBODY[choice.reason])
    if ability is not None and ability.route.when_unavailable == "fail" and choice.why != ABILITY_BUSY:
        return GiveUp(TaskState.FAILED, choice.reason, _NOBODY[choice.reason], retryable=True)
    if not choice.busy and (task.fallback or Falling.of(task, task.attempts, side_effects=False).plan.steps):
        return GiveUp(end_state(choice.reason), choice.reason, _NOBODY[choice.reason], retryable=True)
    return None


def _look_again(age: dt.timedelta) -> dt.timedelta:
    """A tenth of its age, spread, within bounds: ten thousand waiting tasks must not be looked at each second."""
    seconds = min(max(LOOK_AGAIN_S, age.total_seconds() / 10), LONGEST_LOOK_S)
    return dt.timedelta(seconds=seconds * (0.9 + 0.2 * random.random()))  # noqa: S311 - spreads load, guards nothing

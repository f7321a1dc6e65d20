"""From a claimed task to one that may be sent: an instance chosen, a slot taken, the attempt on record."""

import datetime as dt
import random
import time
from dataclasses import dataclass

from common import clock, redis
from routing import snapshot
from routing.breaker.counting import Call, let_go
from routing.channel_choice import PULL, STREAM, channel_of
from routing.channels import Sending
from routing.choice import Choice, NoChoice, ability_busy, choose
from routing.engine import trials
from routing.engine.batches import GONE, RETRY_BUDGET, Batches
from routing.engine.lookups import Lookups, Word
from routing.engine.postponing import Postponer
from routing.engine.records import Records
from routing.engine.request import Request, ask_of, read, timeout_ms
from routing.engine.sendings import sending_of
from routing.engine.slots import Slots
from routing.fallback import independent
from routing.filters import BUSY, shared_limit
from routing.limits.slots import Slot
from routing.loads import Key
from routing.policy import end_state
from routing.snapshot import Ability, RouteView
from routing.states import TaskError
from routing.trip import Claimed, Dispatch, GiveUp, Outcome, Settlement, Succeed

SLOT_WAIT_S = 1.0  # after so long in line it is chosen for anew, and the first time the journey is told
LINE_S = 2.0  # in line at a time, once the journey says so: another worker's slots may come free sooner
STREAM_AWAY = "STREAM_AWAY"  # what it waits for while its agent's stream cannot be written to

_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trip that may go out: its attempt is on record."""

    sending: Sending
    route: RouteView
    request: Request
    slot: Slot

    @property
    def task(self) -> Claimed:
        return self.sending.dispatch.task

    @property
    def breakers(self) -> Call:
        return trials.call_of(self.sending, self.route)


class Preparer:
    """Prepares the trips of this process's tasks."""

    def __init__(self, batches: Batches, slots: Slots, lookups: Lookups, records: Records, postponer: Postponer):
        self._batches, self._slots, self._lookups = batches, slots, lookups
        self._records, self._postponer = records, postponer

    async def prepare(self, task: Claimed) -> Prepared | None:
        """Choose an instance and put the attempt on record; None if nobody can take it or it is ours no more."""
        if task.attempts and not await self._may_repeat(task):
            return None
        request = read(task.request)
        began = time.perf_counter()
        snapshot.current(task.namespace)  # read in, should this process not have it yet: that is what discovery costs
        discovery_ms = round((time.perf_counter() - began) * 1000)
        refused = ""
        while True:
            found = time.perf_counter()
            ability, choice = await self._admitted(task, request, had_turn=bool(refused))
            if isinstance(choice, NoChoice):
                await self._postponer.nobody(task, ability, choice)
                return None
            took_ms = round((time.perf_counter() - found) * 1000, 1)
            channel = channel_of(choice.candidate.agent, choice.instance, request.delivery)
            if channel == PULL:
                await self._to_be_fetched(task, ability, choice)
                return None
            sending = sending_of(task, request, choice, channel, took_ms=took_ms, discovery_ms=discovery_ms)
            prepared = Prepared(sending, choice.route, request, _slot(sending.dispatch, choice))
            if channel == STREAM and redis.is_away():
                self._give_back(prepared)
                await self._postponer.wait(task, STREAM_AWAY, choice.decision)
                return None
            refused = await self._dispatch(prepared)
            if not refused:
                return prepared
            if refused == RETRY_BUDGET:
                await self._postponer.wait(task, RETRY_BUDGET, choice.decision)
            if refused in (GONE, RETRY_BUDGET):
                return None

    async def _to_be_fetched(self, task: Claimed, ability: Ability | None, choice: Choice) -> None:
        self._slots.release(_places(task, choice))
        if task.fallback:  # a substitute is wanted now, and not when it comes for the task
            await self._postponer.nobody(task, ability, NoChoice(choice.considered, TaskError.NO_INSTANCE))
        else:
            await self._postponer.offer(task, choice)

    async def _dispatch(self, prepared: Prepared) -> str:
        """Take its slot and put its attempt on record; why not, if not: what is full is known to the next choice."""
        refused = GONE
        try:
            refused = await self._batches.dispatch.do((prepared.sending.dispatch, prepared.slot))
        finally:
            if refused:
                self._give_back(prepared)
            self._slots.wake_freed()
        return refused

    def _give_back(self, prepared: Prepared) -> None:
        self._slots.release(prepared.slot.places)
        let_go(prepared.breakers, clock.now())

    async def _may_repeat(self, task: Claimed) -> bool:
        """Whether another attempt may be made; where an earlier one turns out to be done, that is the task's end."""
        said = await self._lookups.before(task)
        if isinstance(said, Outcome):
            ended = said.code or TaskError.AGENT_FAILED
            decision = Succeed() if said.kind == "SUCCEEDED" else GiveUp(end_state(ended), ended, said.message)
            worker = self._records.boot_id
            await self._records.settle(Settlement(task.task_id, 0, decision, said, clock.now(), worker=worker))
        elif said is Word.UNKNOWN:
            await self._postponer.wait_for_lookup(task)
        return said is Word.GO_ON

    async def _admitted(
        self, task: Claimed, request: Request, *, had_turn: bool
    ) -> tuple[Ability | None, Choice | NoChoice]:
        """Choose; where the instance is half open and another task is on trial there by now, choose again."""
        while True:
            ability, choice = await self._choose(task, request, had_turn=had_turn)
            if isinstance(choice, NoChoice) or _is_fetched(choice, request):
                return ability, choice
            if await trials.admit(task, choice, timeout_ms(request, choice.candidate.agent.timeout_ms)):
                return ability, choice
            self._slots.release(_places(task, choice))

    async def _choose(
        self, task: Claimed, request: Request, *, had_turn: bool
    ) -> tuple[Ability | None, Choice | NoChoice]:
        """Choose and take a slot; where all are busy, wait a moment for the next one that comes free. Who `had_turn`
        and found the slot gone keeps its place."""
        key, turn = (task.namespace, task.serving), (task.priority, task.client)
        until = time.monotonic() + (LINE_S if BUSY in (task.waited_for or "") else SLOT_WAIT_S)
        while True:
            ability = _serving(task)
            left_ms = (task.deadline_at - clock.now()) // _MILLISECOND
            ask = ask_of(task, request, ability, left_ms)
            full = ability_busy(ability, task.namespace, self._slots.loads) if ability else None
            choice = full or choose(ability, ask, self._slots.loads, random.random)
            if isinstance(choice, Choice):
                self._slots.acquire(_places(task, choice))
                return ability, choice
            is_over = time.monotonic() >= until or left_ms <= 0
            if is_over or ability is None or not choice.busy or (not had_turn and self._slots.is_full(key, turn)):
                return ability, choice
            agents = frozenset(c.agent.agent_id for c in ability.candidates)
            woken = await self._slots.wait(key, agents, SLOT_WAIT_S, turn, _due_since(task), ahead=had_turn)
            had_turn = had_turn or woken


def _places(task: Claimed, choice: Choice) -> tuple[Key, Key]:
    return (task.namespace, *choice.instance.key), (task.namespace, task.serving)


def _slot(dispatch: Dispatch, choice: Choice) -> Slot:
    instance, ability = _places(dispatch.task, choice)
    return Slot(
        attempt=dispatch.attempt_key.hex,
        instance=instance,
        ability=ability,
        most=shared_limit(choice.instance, choice.route),
        ability_most=choice.route.limits.get("maxInflight"),
    )


def _is_fetched(choice: Choice, request: Request) -> bool:
    """Whether its agent will come for it: who fetches one task after the other needs no trials."""
    return channel_of(choice.candidate.agent, choice.instance, request.delivery) == PULL


def _serving(task: Claimed) -> Ability | None:
    """The ability that is to serve it, without those who lack what failed before."""
    ability = snapshot.current(task.namespace).abilities.get(task.serving)
    return independent(ability, task.fallback["down"]) if ability and task.fallback else ability


def _due_since(task: Claimed) -> dt.datetime:
    """Since when it wants a slot; a retry goes on waiting where its first send left off."""
    return min(task.due_at, task.created_at) if task.attempts else task.due_at

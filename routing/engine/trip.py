"""One claimed task's trip through this process: prepare → call → handle."""

import asyncio
import datetime as dt
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError

from callbacks.messages import Due
from common import clock, redis
from routing import pulling, snapshot
from routing.breaker.counting import Call, count, let_go
from routing.channel_choice import PULL, STREAM, channel_of
from routing.channels import Channel, Sending
from routing.channels.base import failed
from routing.choice import Choice, NoChoice, ability_busy, choose
from routing.cost import charged
from routing.engine import trials
from routing.engine.batches import GONE, RETRY_BUDGET, Batches, Received
from routing.engine.cancels import Cancels
from routing.engine.lookups import Lookups, Word, lookup_of
from routing.engine.relay import Relay
from routing.engine.reporting import Reporting
from routing.engine.request import Request, ask_of, read, timeout_ms
from routing.engine.sendings import sending_of
from routing.engine.slots import Slots
from routing.fallback import independent
from routing.filters import BUSY, LASTING, shared_limit
from routing.limits.slots import ABILITY_BUSY, Slot
from routing.loads import Key
from routing.policy import GAVE_UP_MESSAGE, RouteFacts, TaskFacts, attempts_of, decide, end_state
from routing.services.fallback import Falling
from routing.services.receipt import Receipt
from routing.services.sweep import LOOKUP
from routing.snapshot import Ability, RouteView
from routing.states import Certainty, TaskError, TaskState
from routing.trip import (
    Await,
    Claimed,
    Degrade,
    Dispatch,
    GiveUp,
    Outcome,
    Retry,
    Settlement,
    Substitute,
    Succeed,
)  # fmt: skip

log = logging.getLogger(__name__)

SLOT_WAIT_S = 1.0  # after so long in line it is chosen for anew, and the first time the journey is told
LINE_S = 2.0  # in line at a time, once the journey says so: another worker's slots may come free sooner
LOOK_AGAIN_S = 1.0  # a task that nobody can take is looked at again after so long, later the longer it waits
LONGEST_LOOK_S = 5.0
SETTLE_AGAIN_S = 1.0
STREAM_AWAY = "STREAM_AWAY"  # what it waits for while its agent's stream cannot be written to
LOOKUP_AGAIN = dt.timedelta(seconds=5)
OFFER_AGAIN = dt.timedelta(seconds=30)  # a task that nobody fetched is routed anew after so long

Made = TypeVar("Made")

_MILLISECOND = dt.timedelta(milliseconds=1)
_NOBODY = {
    TaskError.LOOP_DETECTED: "It came back to an agent on its own path, or made too many hops.",
    TaskError.BUDGET_BELOW_SLA: "Less time is left than any agent of this ability needs.",
    TaskError.NO_INSTANCE: "No instance could take it, and its route does not wait.",
    TaskError.BREAKER_OPEN: "The breakers of its instances are open, and its route does not wait.",
}


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


class _Busy:
    """A slot in use: given back once, however often its end is said."""

    def __init__(self, slots: Slots, batches: Batches, slot: Slot):
        self._slots, self._leases, self._slot = slots, batches.leases, slot
        self._is_over = False

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._leases.finish(self._slot)
            self._slots.release(self._slot.places)


class Trips:
    """Makes trips. `deliver` gets the callbacks of ended tasks to deliver now, `retry_at` the time of a retry,
    `observe` each call with its outcome and milliseconds."""

    def __init__(
        self,
        boot_id: uuid.UUID,
        batches: Batches,
        slots: Slots,
        channels: dict[str, Channel],
        lookups: Lookups,
        deliver: Callable[[Iterable[Due]], None],
        retry_at: Callable[[dt.datetime], None],
        observe: Callable[[Sending, Outcome, float], None],
        cancels: Cancels,
    ):
        self._boot_id, self._batches, self._slots, self._channels = boot_id, batches, slots, channels
        self._deliver, self._retry_at, self._observe = deliver, retry_at, observe
        self._lookups, self._cancels = lookups, cancels

    async def run(self, task: Claimed) -> None:
        """The whole trip of one task; what it comes to is on record when this returns."""
        prepared = await self.prepare(task)
        if prepared is None:
            return
        busy = _Busy(self._slots, self._batches, prepared.slot)
        try:
            outcome = await self.call(prepared.sending)
            if outcome is None:
                let_go(prepared.breakers, clock.now())
                return
            if outcome.kind != "ACCEPTED":
                busy.end()  # the next one may go while this one's outcome is written down
            count(prepared.breakers, outcome)
            await self._handled(prepared, outcome)
        finally:
            busy.end()

    async def _handled(self, prepared: Prepared, outcome: Outcome) -> None:
        try:
            await self.handle(prepared, outcome)
        except Exception:
            log.exception("an outcome could not be handled", extra={"taskId": str(prepared.task.task_id)})
            message = "The platform could not make sense of the outcome."
            await self.handle(prepared, failed(TaskError.UNREACHABLE, outcome.certainty, clock.now(), message))

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
                await self._nobody(task, ability, choice)
                return None
            took_ms = round((time.perf_counter() - found) * 1000, 1)
            channel = channel_of(choice.candidate.agent, choice.instance, request.delivery)
            if channel == PULL and task.fallback:  # a substitute is wanted now, and not when it comes for the task
                self._slots.release(_places(task, choice))
                await self._nobody(task, ability, NoChoice(choice.considered, TaskError.NO_INSTANCE))
                return None
            if channel == PULL:
                await self._offer(task, choice)
                return None
            sending = sending_of(task, request, choice, channel, took_ms=took_ms, discovery_ms=discovery_ms)
            prepared = Prepared(sending, choice.route, request, _slot(sending.dispatch, choice))
            if channel == STREAM and redis.is_away():
                self._slots.release(prepared.slot.places)
                let_go(prepared.breakers, clock.now())
                await self._wait(task, STREAM_AWAY, choice.decision)
                return None
            refused = await self._dispatch(prepared)
            if not refused:
                return prepared
            if refused == RETRY_BUDGET:
                await self._wait(task, RETRY_BUDGET, choice.decision)
            if refused in (GONE, RETRY_BUDGET):
                return None

    async def _dispatch(self, prepared: Prepared) -> str:
        """Take its slot and put its attempt on record; why not, if not: what is full is known to the next choice."""
        refused = GONE
        try:
            refused = await self._batches.dispatch.do((prepared.sending.dispatch, prepared.slot))
        finally:
            if refused:
                self._slots.release(prepared.slot.places)
                let_go(prepared.breakers, clock.now())
            self._slots.wake_freed()
        return refused

    async def call(self, sending: Sending) -> Outcome | None:
        """Send it; whatever the channel may throw is an outcome too. None if its task was cancelled meanwhile."""
        began = time.perf_counter()
        relay = Relay(self._batches.chunks.do, sending.dispatch)
        reports = Reporting(self._batches.reports.do, sending.dispatch)
        try:
            whole = replace(sending, relay=relay.add, report=reports.add)
            channel = self._channels[sending.dispatch.channel]
            outcome = await self._cancels.guard(sending.dispatch, lambda: channel.send(whole))
        except Exception as error:
            log.exception("a channel broke")
            message = f"The channel broke: {type(error).__name__}"
            return failed(TaskError.UNREACHABLE, Certainty.MAYBE_RAN, clock.now(), message)
        finally:
            await relay.close()
            await reports.close()
        if outcome is not None and relay.has_begun and outcome.retryable is None:
            outcome = replace(outcome, retryable=False)  # nobody is shown the same text twice
        if outcome is not None and not outcome.is_unread:
            self._observe(sending, outcome, (time.perf_counter() - began) * 1000)
        return outcome

    async def handle(self, prepared: Prepared, outcome: Outcome) -> None:
        """Put on record what follows from the outcome."""
        now, sending = clock.now(), prepared.sending
        outcome = charged(outcome, sending.instance.cost, outcome.at - sending.dispatch.sent_at)
        decision = decide(outcome, _task_facts(prepared), _route_facts(prepared), now)
        if isinstance(decision, Await):
            await self._receive(prepared, outcome)
            return
        if isinstance(decision, GiveUp) and outcome.certainty == Certainty.MAYBE_RAN:
            found = await self._lookups.after(prepared.sending)
            outcome, decision = (found, Succeed()) if found else (outcome, decision)
        task, number = prepared.task, prepared.sending.dispatch.number
        after: Succeed | Retry | GiveUp | Substitute | Degrade = decision
        if isinstance(decision, GiveUp):
            falling = Falling.of(task, number, side_effects=prepared.sending.capability.side_effects)
            after = await self._instead(decision, falling, outcome)
        await self._settle(Settlement(task.task_id, number, after, outcome, now, worker=self._boot_id))
        if isinstance(after, Retry | Substitute):
            self._retry_at(after.at if isinstance(after, Retry) else now)

    async def _instead(
        self, give_up: GiveUp, falling: Falling, outcome: Outcome | None
    ) -> Substitute | Degrade | GiveUp:
        """What the task falls back on, if it was given anything, rather than end so."""
        if not falling.plan.steps:
            return give_up
        return await self._until_recorded(lambda: self._batches.instead.do((give_up, falling, outcome)))

    async def _may_repeat(self, task: Claimed) -> bool:
        """Whether another attempt may be made; where an earlier one turns out to be done, that is the task's end."""
        said = await self._lookups.before(task)
        now = clock.now()
        if isinstance(said, Outcome):
            ended = said.code or TaskError.AGENT_FAILED
            decision = Succeed() if said.kind == "SUCCEEDED" else GiveUp(end_state(ended), ended, said.message)
            await self._settle(Settlement(task.task_id, 0, decision, said, now, worker=self._boot_id))
        elif said is Word.UNKNOWN:
            detail = None if task.waited_for == LOOKUP else {"reason": LOOKUP}
            due_at = min(now + LOOKUP_AGAIN, task.deadline_at)
            await self._until_recorded(lambda: self._batches.put_back.do((task.task_id, due_at, detail)))
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

    async def _nobody(self, task: Claimed, ability: Ability | None, choice: NoChoice) -> None:
        """End it, let another do it, or let it wait, without an attempt."""
        give_up = self._end_of(task, ability, choice)
        if give_up is None:
            await self._wait(task, choice.why, choice.decision, in_turn=choice.busy)
            return
        now = clock.now()
        after = await self._instead(give_up, Falling.of(task, task.attempts, side_effects=False), None)
        if isinstance(after, Substitute):
            detail = {**after.detail, "decision": choice.decision}
            await self._until_recorded(lambda: self._batches.put_back.do((task.task_id, now, detail)))
            self._retry_at(now)
            return
        await self._settle(Settlement(task.task_id, 0, after, None, now, worker=self._boot_id))

    def _end_of(self, task: Claimed, ability: Ability | None, choice: NoChoice) -> GiveUp | None:
        """How a task ends that nobody can take; None if it waits. What can be fallen back on is not waited for, unless
        it is only a slot that is missing."""
        if choice.reason in LASTING:
            return GiveUp(end_state(choice.reason), choice.reason, _NOBODY[choice.reason])
        if ability is not None and ability.route.when_unavailable == "fail" and choice.why != ABILITY_BUSY:
            return GiveUp(TaskState.FAILED, choice.reason, _NOBODY[choice.reason], retryable=True)
        if not choice.busy and (task.fallback or Falling.of(task, task.attempts, side_effects=False).plan.steps):
            return GiveUp(end_state(choice.reason), choice.reason, _NOBODY[choice.reason], retryable=True)
        return None

    async def _wait(self, task: Claimed, why: str, decision: dict[str, Any], *, in_turn: bool = False) -> None:
        """Let it wait in the database; `in_turn` for a slot, in which it stays ahead of what came later."""
        now = clock.now()
        due_at = task.due_at if in_turn else min(now + _look_again(now - task.created_at), task.deadline_at)
        detail = None if why == task.waited_for else {"reason": why, "decision": decision}
        await self._until_recorded(lambda: self._batches.put_back.do((task.task_id, due_at, detail)))

    async def _offer(self, task: Claimed, choice: Choice) -> None:
        """It waits, without using an attempt, until an instance of the chosen agent fetches it."""
        self._slots.release(_places(task, choice))
        reason = pulling.offer_to(choice.instance.agent_id)
        due_at = min(clock.now() + OFFER_AGAIN, task.deadline_at)
        detail = None if reason == task.waited_for else {"reason": reason, "decision": choice.decision}
        await self._until_recorded(lambda: self._batches.put_back.do((task.task_id, due_at, detail)))
        pulling.tell(task.namespace, choice.instance.agent_id)

    async def give_up(self, task: Claimed, strikes: int) -> None:
        """End a task that was taken up in vain too often."""
        message = GAVE_UP_MESSAGE.format(strikes)
        give_up = GiveUp(TaskState.FAILED, TaskError.INTERNAL_ERROR, message, details={"strikes": strikes})
        await self._settle(Settlement(task.task_id, 0, give_up, None, clock.now(), worker=self._boot_id))

    async def _receive(self, prepared: Prepared, outcome: Outcome) -> None:
        """The agent has it and works on its own: nothing is held here any more but its slot, until the attempt ends."""
        task, number = prepared.task, prepared.sending.dispatch.number
        at = outcome.received_at or outcome.at
        poll_url, until = outcome.poll_url, prepared.sending.dispatch.deadline_at
        key = prepared.sending.dispatch.attempt_key if outcome.is_unread else None
        receipt = Receipt(
            task.task_id, number, at, worker=self._boot_id, attempt_key=key, released=True, poll_url=poll_url
        )
        received = Received(receipt, prepared.slot, until, is_unread=outcome.is_unread)
        await self._until_recorded(lambda: self._batches.receipts.do(received))

    async def _settle(self, settlement: Settlement) -> None:
        settled = await self._until_recorded(lambda: self._batches.settle.do(settlement))
        self._deliver(settled.callbacks)

    async def _until_recorded(self, write: Callable[[], Awaitable[Made]]) -> Made:
        """Repeat while the database is away: what is in hand is worth keeping, and nothing is sent again for it."""
        while True:
            try:
                return await write()
            except (OperationalError, InterfaceError) as error:
                log.warning("the database is away, an outcome waits: %s", type(error).__name__)
                await asyncio.sleep(SETTLE_AGAIN_S)


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


def _task_facts(prepared: Prepared) -> TaskFacts:
    task, capability = prepared.task, prepared.sending.capability
    number, allowed = prepared.sending.dispatch.number, prepared.route.max_attempts
    attempts, most = attempts_of(number, task.max_attempts, task.fallback, allowed)
    return TaskFacts(
        attempts=attempts,
        max_attempts=most,
        deadline_at=task.deadline_at,
        expires_at=task.expires_at,
        side_effects=capability.side_effects,
        idempotent=capability.idempotent,
        has_lookup=bool(lookup_of(prepared.sending.agent, prepared.sending.instance.instance_id)),
    )


def _route_facts(prepared: Prepared) -> RouteFacts:
    """The route's rules, with the caller's own wait where one was asked for."""
    route, asked = prepared.route, prepared.request.retry.backoff_ms
    backoff = route.backoff_ms if asked is None else (int(asked),)
    return RouteFacts(backoff, route.jitter_ms, route.jitter_share, route.retryable)


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


def _look_again(age: dt.timedelta) -> dt.timedelta:
    """A tenth of its age, spread, within bounds: ten thousand waiting tasks must not be looked at each second."""
    seconds = min(max(LOOK_AGAIN_S, age.total_seconds() / 10), LONGEST_LOOK_S)
    return dt.timedelta(seconds=seconds * (0.9 + 0.2 * random.random()))  # noqa: S311 - spreads load, guards nothing

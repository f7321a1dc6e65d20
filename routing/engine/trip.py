"""One claimed task's trip through this process: prepare → call → handle."""

import datetime as dt
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from common import clock
from routing.breaker.counting import count, let_go
from routing.channels import Channel, Sending
from routing.channels.base import failed
from routing.cost import charged
from routing.engine.batches import Batches, Received
from routing.engine.cancels import Cancels
from routing.engine.lookups import Lookups, lookup_of
from routing.engine.preparing import Prepared, Preparer
from routing.engine.records import Records
from routing.engine.relay import Relay
from routing.engine.reporting import Reporting
from routing.engine.slots import Slots
from routing.limits.slots import Slot
from routing.policy import RouteFacts, TaskFacts, attempts_of, decide
from routing.services.fallback import Falling
from routing.services.receipt import Receipt
from routing.states import Certainty, TaskError
from routing.trip import Await, Claimed, Degrade, GiveUp, Outcome, Retry, Settlement, Substitute, Succeed

log = logging.getLogger(__name__)


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
    """Makes trips. `retry_at` gets the time of a retry, `observe` each call with its outcome and milliseconds."""

    def __init__(
        self,
        preparer: Preparer,
        records: Records,
        batches: Batches,
        slots: Slots,
        channels: dict[str, Channel],
        lookups: Lookups,
        cancels: Cancels,
        retry_at: Callable[[dt.datetime], None],
        observe: Callable[[Sending, Outcome, float], None],
    ):
        self._preparer, self._records, self._batches, self._slots = preparer, records, batches, slots
        self._channels, self._lookups, self._cancels = channels, lookups, cancels
        self._retry_at, self._observe = retry_at, observe

    async def run(self, task: Claimed) -> None:
        """The whole trip of one task; what it comes to is on record when this returns."""
        prepared = await self._preparer.prepare(task)
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
            after = await self._records.instead(decision, falling, outcome)
        await self._records.settle(Settlement(task.task_id, number, after, outcome, now, worker=self._records.boot_id))
        if isinstance(after, Retry | Substitute):
            self._retry_at(after.at if isinstance(after, Retry) else now)

    async def _receive(self, prepared: Prepared, outcome: Outcome) -> None:
        """The agent has it and works on its own: nothing is held here any more but its slot, until the attempt ends."""
        receipt = Receipt(
            prepared.task.task_id,
            prepared.sending.dispatch.number,
            outcome.received_at or outcome.at,
            worker=self._records.boot_id,
            attempt_key=prepared.sending.dispatch.attempt_key if outcome.is_unread else None,
            released=True,
            poll_url=outcome.poll_url,
        )
        until = prepared.sending.dispatch.deadline_at
        await self._records.receive(Received(receipt, prepared.slot, until, is_unread=outcome.is_unread))


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

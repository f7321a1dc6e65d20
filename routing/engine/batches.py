"""The steps of a trip that touch the database, each in batches on the engine's threads."""

import datetime as dt
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

from callbacks import services as callbacks
from callbacks.messages import Due, Tried
from common import clock
from routing.breaker.retries import RetryBudgets
from routing.engine.batcher import Batcher
from routing.engine.leases import Leases
from routing.limits.slots import Slot
from routing.services import chunks, doubts, fallback, held, waiting
from routing.services.chunks import Chunked
from routing.services.dispatch import dispatch
from routing.services.doubts import Doubt
from routing.services.held import Report
from routing.services.receipt import Receipt, received, still_open
from routing.services.settle import settle
from routing.trip import Degrade, Dispatch, GiveUp, Outcome, Settled, Settlement, Substitute

GONE = "GONE"  # the task is ours no more
RETRY_BUDGET = "RETRY_BUDGET"  # there were too many retries already

Made = TypeVar("Made")
ToSend = tuple[Dispatch, Slot]
Fall = tuple[GiveUp, fallback.Falling, Outcome | None]
PutBack = tuple[uuid.UUID, dt.datetime, dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Received:
    """A receipt; with a slot, the agent works on its own until `until` and keeps it so long. `is_unread`: it was only
    handed over, the receipt itself is yet to come."""

    receipt: Receipt
    slot: Slot | None = None
    until: dt.datetime | None = None
    is_unread: bool = False


class Batches:
    """One batcher a kind of work; `progress_at` is when the last batch was done."""

    def __init__(self, boot_id: uuid.UUID, executor: Executor, leases: Leases):
        self._boot_id, self.leases, self._retries = boot_id, leases, RetryBudgets()
        self.progress_at = clock.now()
        self.dispatch: Batcher[ToSend, str] = Batcher(self._dispatch, executor)
        self.receipts: Batcher[Received, None] = Batcher(self._receive, executor)
        self.instead: Batcher[Fall, Substitute | Degrade | GiveUp] = Batcher(self._instead, executor)
        self.settle: Batcher[Settlement, Settled] = Batcher(self._settle, executor)
        self.put_back: Batcher[PutBack, None] = Batcher(self._put_back, executor)
        self.tried: Batcher[Tried, None] = Batcher(self._tried, executor)
        self.chunks: Batcher[Chunked, None] = Batcher(self._chunks, executor)
        self.reports: Batcher[Report, None] = Batcher(self._report, executor)
        self.doubts: Batcher[uuid.UUID, Doubt | None] = Batcher(self._doubts, executor)
        self.stale: Batcher[Due, bool] = Batcher(self._stale, executor)
        self.postpone: Batcher[tuple[Due, dt.datetime], None] = Batcher(self._postpone, executor)

    def stuck_for(self) -> float:
        """Seconds since the longest running batch began; 0 when none runs."""
        all_of_them = (
            self.dispatch,
            self.receipts,
            self.instead,
            self.settle,
            self.put_back,
            self.tried,
            self.stale,
            self.postpone,
        )
        begun = [batcher.began_at for batcher in all_of_them if batcher.began_at is not None]
        return time.monotonic() - min(begun) if begun else 0.0

    def _dispatch(self, asked: list[ToSend]) -> list[str]:
        """Send what the retry budget allows; for each why it may not be sent, empty if it may."""
        over = self._retries.over([one for one, _ in asked], clock.now().timestamp())
        sent = iter(self._send([one for one, is_over in zip(asked, over, strict=True) if not is_over]))
        return [RETRY_BUDGET if is_over else next(sent) for is_over in over]

    def _send(self, asked: list[ToSend]) -> list[str]:
        """Take the slots, then write the attempts down; for each why it may not be sent, empty if it may."""
        refused = self.leases.take([slot for _, slot in asked])
        going = [one for one, why in zip(asked, refused, strict=True) if not why]
        may_go: set[uuid.UUID] = set()
        try:
            may_go = dispatch([one for one, _ in going], self._boot_id) if going else set()
        finally:
            self._finish([slot for one, slot in going if one.task.task_id not in may_go])
        gone = [
            why or ("" if one.task.task_id in may_go else GONE) for (one, _), why in zip(asked, refused, strict=True)
        ]
        return self._done(gone)

    def _receive(self, receipts: list[Received]) -> list[None]:
        """The leases first: from the receipt on whoever ends the attempt gives the slot back."""
        now = clock.now()
        kept = [(one.slot, _ms(one.until - now)) for one in receipts if one.slot and one.until]
        self.leases.keep(kept)
        there = received([one.receipt for one in receipts if not one.is_unread])
        there |= still_open([one.receipt for one in receipts if one.is_unread])
        self.leases.give_back([one.slot for one in receipts if one.slot and one.receipt.task_id not in there])
        return self._done([None] * len(receipts))

    def _finish(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            self.leases.finish(slot)

    def _instead(self, falls: list[Fall]) -> list[Substitute | Degrade | GiveUp]:
        now = clock.now()
        return self._done([fallback.after(give_up, task, outcome, now) for give_up, task, outcome in falls])

    def _settle(self, settlements: list[Settlement]) -> list[Settled]:
        by_task = {one.task_id: one for one in settle(settlements, lease_callbacks=True)}
        return self._done([by_task[one.task_id] for one in settlements])

    def _put_back(self, tasks: list[PutBack]) -> list[None]:
        waiting.put_back(tasks, boot_id=self._boot_id)
        return self._done([None] * len(tasks))

    def _tried(self, tried: list[Tried]) -> list[None]:
        callbacks.finish(tried, clock.now())
        return self._done([None] * len(tried))

    def _chunks(self, given: list[Chunked]) -> list[None]:
        chunks.note(given)
        return self._done([None] * len(given))

    def _report(self, given: list[Report]) -> list[None]:
        held.note(given, clock.now())
        return self._done([None] * len(given))

    def _doubts(self, task_ids: list[uuid.UUID]) -> list[Doubt | None]:
        found = doubts.of(task_ids)
        return self._done([found.get(task_id) for task_id in task_ids])

    def _stale(self, dues: list[Due]) -> list[bool]:
        stale = callbacks.stale(dues)
        return self._done([due.id in stale for due in dues])

    def _postpone(self, untried: list[tuple[Due, dt.datetime]]) -> list[None]:
        callbacks.postpone(untried)
        return self._done([None] * len(untried))

    def _done(self, made: list[Made]) -> list[Made]:
        self.progress_at = clock.now()
        return made


def _ms(left: dt.timedelta) -> int:
    return max(1, left // dt.timedelta(milliseconds=1))

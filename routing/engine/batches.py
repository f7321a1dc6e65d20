"""The steps of a trip that touch the database, each in batches on the engine's threads."""

import datetime as dt
import time
import uuid
from concurrent.futures import Executor
from typing import Any, TypeVar

from callbacks import services as callbacks
from callbacks.messages import Due, Tried
from common import clock
from routing.engine.batcher import Batcher
from routing.services import waiting
from routing.services.dispatch import dispatch
from routing.services.receipt import Receipt, received
from routing.services.settle import settle
from routing.trip import Dispatch, Settled, Settlement

POSTPONED = dt.timedelta(seconds=5)

Made = TypeVar("Made")
PutBack = tuple[uuid.UUID, dt.datetime, dict[str, Any] | None]


class Batches:
    """One batcher a kind of work; `progress_at` is when the last batch was done."""

    def __init__(self, boot_id: uuid.UUID, executor: Executor):
        self._boot_id = boot_id
        self.progress_at = clock.now()
        self.dispatch: Batcher[Dispatch, bool] = Batcher(self._dispatch, executor)
        self.receipts: Batcher[Receipt, None] = Batcher(self._receive, executor)
        self.settle: Batcher[Settlement, Settled] = Batcher(self._settle, executor)
        self.put_back: Batcher[PutBack, None] = Batcher(self._put_back, executor)
        self.tried: Batcher[Tried, None] = Batcher(self._tried, executor)
        self.stale: Batcher[Due, bool] = Batcher(self._stale, executor)
        self.postpone: Batcher[Due, None] = Batcher(self._postpone, executor)

    def stuck_for(self) -> float:
        """Seconds since the longest running batch began; 0 when none runs."""
        all_of_them = (self.dispatch, self.receipts, self.settle, self.put_back, self.tried, self.stale, self.postpone)
        begun = [batcher.began_at for batcher in all_of_them if batcher.began_at is not None]
        return time.monotonic() - min(begun) if begun else 0.0

    def _dispatch(self, dispatches: list[Dispatch]) -> list[bool]:
        may_go = dispatch(dispatches, self._boot_id)
        return self._done([one.task.task_id in may_go for one in dispatches])

    def _receive(self, receipts: list[Receipt]) -> list[None]:
        received(receipts)
        return self._done([None] * len(receipts))

    def _settle(self, settlements: list[Settlement]) -> list[Settled]:
        by_task = {one.task_id: one for one in settle(settlements, lease_callbacks=True)}
        return self._done([by_task[one.task_id] for one in settlements])

    def _put_back(self, tasks: list[PutBack]) -> list[None]:
        waiting.put_back(tasks, boot_id=self._boot_id)
        return self._done([None] * len(tasks))

    def _tried(self, tried: list[Tried]) -> list[None]:
        callbacks.finish(tried, clock.now())
        return self._done([None] * len(tried))

    def _stale(self, dues: list[Due]) -> list[bool]:
        stale = callbacks.stale(dues)
        return self._done([due.id in stale for due in dues])

    def _postpone(self, dues: list[Due]) -> list[None]:
        callbacks.postpone(dues, clock.now() + POSTPONED)
        return self._done([None] * len(dues))

    def _done(self, made: list[Made]) -> list[Made]:
        self.progress_at = clock.now()
        return made

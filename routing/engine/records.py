"""What a trip comes to, put on record: repeated while the database is away, as what is in hand is worth keeping."""

import asyncio
import datetime as dt
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError

from callbacks.messages import Due
from routing.engine.batches import Batches, Received
from routing.services.fallback import Falling
from routing.trip import Degrade, GiveUp, Outcome, Settlement, Substitute

log = logging.getLogger(__name__)

AGAIN_S = 1.0

Made = TypeVar("Made")


class Records:
    """The batches behind `until_recorded`; `deliver` gets the callbacks of ended tasks to deliver now."""

    def __init__(self, boot_id: uuid.UUID, batches: Batches, deliver: Callable[[Iterable[Due]], None]):
        self.boot_id, self._batches, self._deliver = boot_id, batches, deliver

    async def settle(self, settlement: Settlement) -> None:
        """The task moves, its attempt is closed; if it ended, its callback is on its way."""
        settled = await self._until_recorded(lambda: self._batches.settle.do(settlement))
        self._deliver(settled.callbacks)

    async def receive(self, received: Received) -> None:
        """The agent has it: this process holds it no more."""
        await self._until_recorded(lambda: self._batches.receipts.do(received))

    async def put_back(self, task_id: uuid.UUID, due_at: dt.datetime, detail: dict[str, Any] | None) -> None:
        """It waits in the database; a detail is told in the journey (`routing.services.waiting`)."""
        await self._until_recorded(lambda: self._batches.put_back.do((task_id, due_at, detail)))

    async def instead(
        self, give_up: GiveUp, falling: Falling, outcome: Outcome | None
    ) -> Substitute | Degrade | GiveUp:
        """What the task falls back on, if it was given anything, rather than end so."""
        if not falling.plan.steps:
            return give_up
        return await self._until_recorded(lambda: self._batches.instead.do((give_up, falling, outcome)))

    async def _until_recorded(self, write: Callable[[], Awaitable[Made]]) -> Made:
        while True:
            try:
                return await write()
            except (OperationalError, InterfaceError) as error:
                log.warning("the database is away, an outcome waits: %s", type(error).__name__)
                await asyncio.sleep(AGAIN_S)

"""What live calls show of instances: handed on each second, and at once when one of them fails in a row."""

import asyncio
import contextlib
import logging
from collections import Counter
from concurrent.futures import Executor

from common import clock
from registry.services import observing
from registry.services.evidence import NEUTRAL, OK
from registry.services.observing import Observed
from routing.channels import Sending
from routing.evidence import code_of, fits_of, result_of
from routing.trip import Outcome

log = logging.getLogger(__name__)

EACH_S = 1.0
IN_A_ROW = 3  # failures in this process's own hands after which an instance is judged now
GATHERED = 20_000  # more in a second say nothing new


class Observer:
    """One an engine, on its loop."""

    def __init__(self, executor: Executor):
        self._executor = executor
        self._seen: list[Observed] = []
        self._failing: Counter[tuple[str, str, str]] = Counter()
        self._hurry = asyncio.Event()
        self._running = asyncio.create_task(self._run())

    def note(self, sending: Sending, outcome: Outcome, took_ms: float) -> None:
        """Note how a call went; a receipt shows that the instance is there, but not how long its work takes."""
        key = (sending.dispatch.task.namespace, *sending.instance.key)
        result = result_of(outcome)
        if result == NEUTRAL or len(self._seen) >= GATHERED:
            return
        if result == OK:
            self._failing.pop(key, None)
        else:
            self._failing[key] += 1
            if self._failing[key] == IN_A_ROW:
                self._hurry.set()
        ms = took_ms if outcome.kind == "SUCCEEDED" else None
        fits = fits_of(outcome, declared=sending.capability.output is not None)
        self._seen.append(Observed(key, result, ms, code_of(outcome), outcome.at, fits))

    async def stop(self) -> None:
        """Hand on the rest."""
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running
        await self._hand_on()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), EACH_S)
            self._hurry.clear()
            await self._hand_on()

    async def _hand_on(self) -> None:
        if not self._seen:
            return
        seen, self._seen = self._seen, []
        called = {one.key for one in seen}
        failing = [key for key, count in self._failing.items() if count >= IN_A_ROW and key in called]
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, observing.observed, seen, failing, clock.now())
        except Exception as error:  # what was seen is lost, the next second brings more
            log.warning("live calls could not be handed on: %s", error)

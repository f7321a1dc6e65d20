"""One run: a platform of its own, load over all kinds of agents, one fault after the other, and the count at the end."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.faults import FaultProxy
from tests.chaos.count import Count, count
from tests.chaos.faults import Faults
from tests.chaos.outside import STYLES, Outside
from tests.chaos.town import Town
from tests.trips.world import Platform

CALLERS = 24
LONGEST_WORK_MS = 400
TIMES = {"timeoutBudgetMs": 240_000, "ttlMs": 300_000}
PATIENCE_S = 720.0  # beyond a task's time to live, and the longest wait of a callback
SETTINGS = {
    "REACH_VISIBILITY_TIMEOUT": "20",  # nothing may hang on a broker's patience
    # Agents that were cut off are believed again soon.
    "REACH_PROBE_INTERVAL": "2000",
    "REACH_HEALTH_EJECTED_FOR_S": "2",
    "REACH_HEALTH_PROOF_AFTER_S": "0",
    "REACH_HEALTH_PROOF_SUCCESSES": "1",
}


@dataclass
class Load:
    """So many tasks, spread evenly over the time; `accepted_at` by the caller's key, monotonic."""

    town: Town
    tasks: int
    seconds: float
    rand: random.Random
    accepted_at: dict[str, float] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        self.styles = [self.rand.choice(STYLES) for _ in range(self.tasks)]
        self.work_ms = [self.rand.randrange(LONGEST_WORK_MS) for _ in range(self.tasks)]
        self._began = time.monotonic()
        self._next = iter(range(self.tasks))
        for _ in range(CALLERS):
            self.town.outside.begin(self._call())

    async def _call(self) -> None:
        for number in self._next:
            await asyncio.sleep(max(0.0, self._began + number * self.seconds / self.tasks - time.monotonic()))
            style, key = self.styles[number], f"{self.styles[number]}-{number}"
            asked = self.town.request(style, key, {"n": number, "workMs": self.work_ms[number]}, **TIMES)
            self.ids[key] = (await self.town.submit(asked, PATIENCE_S))[0]
            self.accepted_at[key] = time.monotonic()


@contextmanager
def _world() -> Iterator[tuple[Platform, Outside, FaultProxy, FaultProxy]]:
    with Outside() as outside, FaultProxy(("127.0.0.1", outside.port)) as agents:
        platform = Platform(**SETTINGS)
        try:
            with FaultProxy(("127.0.0.1", platform.port)) as callers:
                yield platform, outside, agents, callers
        finally:
            platform.stop()


def run(minutes: float, tasks: int, seed: int, say: Callable[[str], None]) -> Count:
    """Returns what came of it; raises AssertionError where nothing moves for twelve minutes and not all were told.

    The faults go on for `minutes`; a machine that cannot carry so many tasks in that time gets the rest without. The same
    seed draws the same tasks and the same order of faults.
    """
    rand = random.Random(seed)
    with _world() as (platform, outside, agents, callers):
        town = Town(platform, outside, agents_url=agents.url, callers_url=callers.url)
        load = Load(town, tasks, minutes * 60, random.Random(rand.random()))
        faults = Faults(platform, agents, callers, rand)
        say(f"seed {seed}: {tasks} tasks in {minutes:g} min over {', '.join(STYLES)}")
        load.begin()
        began = time.monotonic()
        while (at := time.monotonic() - began) < minutes * 60:
            hit = faults.hit(faults.next())
            say(f"{at:6.1f} s  {hit.name:40s} accepted {len(load.ids)}, told {len(outside.ledger.told)}")
            time.sleep(rand.uniform(2.0, 6.0))
        say(f"{time.monotonic() - began:6.1f} s  no more faults")
        _drain(load, outside)
        say(f"{time.monotonic() - began:6.1f} s  all told")
        platform.wait_ready()
        return count(load.ids, load.accepted_at, faults.hits, town)


def _drain(load: Load, outside: Outside) -> None:
    """Until the rest was accepted, and all were told; it may take as long as it takes, while anything moves."""
    moved_at, seen = time.monotonic(), (0, 0)
    while (now := (len(load.ids), len(outside.ledger.told))) != (load.tasks, load.tasks):
        if now != seen:
            moved_at, seen = time.monotonic(), now
        left = load.ids.keys() - outside.ledger.told.keys()
        assert time.monotonic() < moved_at + PATIENCE_S, f"accepted {now[0]}, not told: {sorted(left)[:5]}"
        time.sleep(0.2)

"""When a callback is tried again, and when no more: values, computed without clock, row or socket.

| what came                                   | then                                                        |
|---------------------------------------------|-------------------------------------------------------------|
| any 2xx                                     | delivered                                                   |
| 410, or an address that may not be called   | dead at once                                                |
| 429, 503 or anything else with Retry-After  | the schedule's step, but not before the time asked for (at most 1 h) |
| everything else: other statuses, redirects, no connection, bad certificate, time out | the schedule's next step |
| no step left                                | dead                                                        |
"""

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass

_STANDARD = (30, 60, 120, 300, 600)
SCHEDULES: dict[str, tuple[int, ...]] = {  # seconds from each failure to the next try; the first try is at once
    "standard": _STANDARD,
    "long": (*_STANDARD, 1800, 7200, 18_000, 36_000, 36_000),
}
PROGRESS = (
    "progress"  # the schedule of what is told on the way: the standard one, until something newer takes its place
)
JITTER = 0.1
RETRY_AFTER_CAP_S = 3600


@dataclass(frozen=True, slots=True)
class Done:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class Again:
    """Another try at `at`."""

    at: dt.datetime


@dataclass(frozen=True, slots=True)
class Dead:
    """No further try by itself."""

    reason: str


Step = Done | Again | Dead


def next_step(
    status: int | None,
    error: str | None,
    series: int,
    schedule: str,
    *,
    retry_after_s: int | None,
    now: dt.datetime,
    permanent: bool = False,
    rand: Callable[[], float] = random.random,
) -> Step:
    """What follows from try number `series` (from 1) of a schedule run that failed, or not, at `now`.

    `error` is None for a delivery; `permanent` says that no try can ever succeed; `rand` gives numbers in [0, 1).
    """
    if error is None:
        return Done()
    if permanent or status == 410:
        return Dead(error)
    steps = SCHEDULES.get(schedule, _STANDARD)
    if series > len(steps):
        return Dead(error)
    wait = steps[series - 1] * (1 + JITTER * (2 * rand() - 1))
    asked = min(max(retry_after_s or 0, 0), RETRY_AFTER_CAP_S)
    return Again(now + dt.timedelta(seconds=max(wait, asked)))

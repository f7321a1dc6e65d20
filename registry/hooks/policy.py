"""When a firing is tried again, and when no more: values, computed without clock, row or socket.

| what came                                                          | then                                          |
|--------------------------------------------------------------------|-----------------------------------------------|
| any 2xx; exit status 0                                             | delivered                                     |
| 410                                                                | dead at once, and the hook is stopped         |
| an address that may not be called                                  | dead at once                                  |
| Retry-After                                                        | the next step, but not before (at most 1 h)   |
| every other status, redirect, time out, exit status; no connection | the next step                                 |
| no step left                                                       | dead                                          |
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from registry.hooks.messages import TEST, Tried

STEPS_S = (15, 60, 240, 600)  # from each failure to the next try; the first is at once, the fifth after 15 minutes
MOST_TRIES = len(STEPS_S) + 1
JITTER = 0.1
RETRY_AFTER_CAP_S = 3600


@dataclass(frozen=True, slots=True)
class Next:
    """The state that follows, and when the next try is due; None = never by itself."""

    state: str
    due_at: datetime | None = None


def next_step(tried: Tried, rand: Callable[[], float] = random.random) -> Next:
    """What follows from a try; `rand` gives numbers in [0, 1). A test is tried once: somebody waits for its result."""
    if tried.error is None:
        return Next("DELIVERED")
    if tried.permanent or tried.gone or tried.due.event == TEST or tried.due.number >= MOST_TRIES:
        return Next("DEAD")
    wait = STEPS_S[tried.due.number - 1] * (1 + JITTER * (2 * rand() - 1))
    asked = min(max(tried.retry_after_s or 0, 0), RETRY_AFTER_CAP_S)
    return Next("PENDING", tried.at + timedelta(milliseconds=tried.took_ms, seconds=max(wait, asked)))

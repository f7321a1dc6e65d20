"""When to probe next. Pure."""

from collections.abc import Callable

SUSPECT_S = 2.0  # after a first failure
LONG_DOWN_S = 60.0
JITTER = 0.2


def next_delay_s(failures: int, retries: int, interval_s: float, rand: Callable[[], float]) -> float:
    """Seconds from one probe's start to the next, ±20 % so that instances do not stay in step.

    Well: the interval. From the first failure until `retries` in a row decide: 2 s. After that doubling from the
    interval to 60 s. `rand` gives 0 to 1.
    """
    if failures == 0:
        delay = interval_s
    elif failures < retries:
        delay = min(SUSPECT_S, interval_s)
    else:
        delay = max(interval_s, min(LONG_DOWN_S, interval_s * 2 ** min(failures - retries, 6)))
    return delay * (1 - JITTER + 2 * JITTER * rand())

"""How long to wait before the next try. Pure: no clock, no sleep."""

import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

RETRY_AFTER_CAP = timedelta(hours=1)
_SECONDS = re.compile(r"[0-9]+")
_MANY_DIGITS = 18
_HTTP_DATE = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"
    r"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT)",
    re.ASCII,
)


def delay_ms(
    attempt: int,
    steps: Sequence[int],
    jitter_ms: int = 500,
    jitter_share: float | None = None,
    rand: Callable[[], float] = random.random,
) -> int:
    """Milliseconds to wait after the failed try number `attempt` (from 1).

    `steps` are the waits in turn, the last one repeats; no steps means none. On top come 0 to `jitter_ms` milliseconds,
    or, where `jitter_share` is given, ± that share of the step instead. `rand` gives a number in [0, 1).
    """
    step = steps[min(max(attempt, 1), len(steps)) - 1] if steps else 0
    if jitter_share is not None:
        return max(0, round(step * (1 + jitter_share * (2 * rand() - 1))))
    return step + int(rand() * (jitter_ms + 1))


def retry_after(values: Sequence[str], now: datetime, cap: timedelta = RETRY_AFTER_CAP) -> timedelta | None:
    """The wait that Retry-After asks for, between zero and `cap`; None when there is none that makes sense.

    `values` are all Retry-After values of the answer. Read are whole seconds (RFC 9110, 10.2.3) and HTTP dates in GMT;
    a date in the past is zero. Several values count only if they are all the same.
    """
    distinct = {value.strip(" \t") for value in values}
    if len(distinct) != 1:
        return None
    (text,) = distinct
    if _SECONDS.fullmatch(text):
        return timedelta(seconds=min(int(text), cap.total_seconds())) if len(text) <= _MANY_DIGITS else cap
    if not _HTTP_DATE.fullmatch(text):
        return None
    try:
        wait = parsedate_to_datetime(text).astimezone(UTC) - now
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(wait, timedelta(0)), cap)

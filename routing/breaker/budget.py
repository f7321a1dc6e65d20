"""The retry budget: retries are at most a share of an ability's recent traffic, or a few a second. Pure; times are
seconds since the epoch."""

import msgspec

SHARE = 0.2  # of the first sends
LEAST = 10.0  # retries a second that are always allowed
WINDOW_S = 10  # what counts as recent


class Budget(msgspec.Struct, frozen=True, array_like=True):
    """What is left of an ability's budget; `sends` counts first sends by second."""

    left: float = LEAST
    at: float = 0.0
    sends: tuple[tuple[int, int], ...] = ()


FULL = Budget()


def rate(budget: Budget, now: float) -> float:
    """Retries a second that its traffic of the last seconds allows."""
    recent = sum(count for second, count in budget.sends if second > now - WINDOW_S)
    return max(LEAST, SHARE * recent / WINDOW_S)


def spent(budget: Budget, sends: int, wanted: int, now: float) -> tuple[Budget, int]:
    """The budget after so many first sends, and how many of the wanted retries it grants. A second's worth is saved up
    at the most."""
    by_second = {second: count for second, count in budget.sends if second > now - WINDOW_S}
    if sends:
        by_second[int(now)] = by_second.get(int(now), 0) + sends
    after = Budget(budget.left, max(budget.at, now), tuple(sorted(by_second.items())))
    each_s = rate(after, now)
    left = min(each_s, budget.left + each_s * max(0.0, now - budget.at))
    granted = min(wanted, int(left))
    return msgspec.structs.replace(after, left=left - granted), granted


def next_at(budget: Budget, now: float) -> float:
    """When it grants one more."""
    return now + max(0.0, 1.0 - budget.left) / rate(budget, now)

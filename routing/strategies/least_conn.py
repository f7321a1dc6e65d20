"""The least busy, but not all at once to the same one."""

from collections.abc import Sequence

from routing.filters import Seen
from routing.strategies.base import Option, Pool, Rand

BEST = 3
NEAR = 1.2  # loads up to this many times the lowest, or one call above it, are as good


class LeastConn:
    """Running calls ÷ weight; a random one of the best three whose loads are close, so that bursts do not herd."""

    def pick(self, pool: Pool) -> Seen:
        return least_busy(pool.options, pool.rand, BEST)


def least_busy(options: Sequence[Option], rand: Rand, best: int = 1) -> Seen:
    """A random one of the `best` with the lowest loads; who is equally busy is as likely to be among them."""
    if len(options) == 1:
        return options[0][1]
    loads = [running / one.weight for running, one in options]
    ranked = sorted(loads)
    most = max(ranked[0] * NEAR, ranked[0] + 1)
    last = ranked[min(best, len(ranked)) - 1]  # the load of the last of the best: several may have it
    if last > most:
        below = [option[1] for load, option in zip(loads, options, strict=True) if load <= most]
        return below[int(rand() * len(below))]
    below = [option[1] for load, option in zip(loads, options, strict=True) if load < last]
    at = int(rand() * min(best, len(ranked)))
    if at < len(below):
        return below[at]
    level = [option[1] for load, option in zip(loads, options, strict=True) if load == last]
    return level[int(rand() * len(level))]

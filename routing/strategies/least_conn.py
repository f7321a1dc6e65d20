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
    ranked = sorted(loads)[:best]
    most = max(ranked[0] * NEAR, ranked[0] + 1)
    near = [load for load in ranked if load <= most]
    load = near[int(rand() * len(near))]  # one of the best, by its load: of several that have it any one
    level = [at for at, its in enumerate(loads) if its == load]
    return options[level[int(rand() * len(level))]][1]

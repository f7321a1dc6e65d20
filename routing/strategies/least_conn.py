"""The least busy, but not all at once to the same one."""

from collections.abc import Sequence

from routing.ask import Ask, Load
from routing.filters import inflight
from routing.snapshot.model import InstanceView
from routing.strategies.base import Rand, weight_of

BEST = 3
NEAR = 1.2  # loads up to this many times the lowest, or one call above it, are as good


class LeastConn:
    """Running calls ÷ weight; a random one of the best three whose loads are close, so that bursts do not herd."""

    def pick(self, instances: Sequence[InstanceView], ask: Ask, loads: Load, rand: Rand) -> InstanceView:
        if len(instances) == 1:
            return instances[0]
        loaded = [(inflight(ask, loads, one) / weight_of(one), one) for one in instances]
        best = sorted(loaded, key=lambda pair: (pair[0], pair[1].key))[:BEST]
        lowest = best[0][0]
        near = [one for load, one in best if load <= max(lowest * NEAR, lowest + 1)]
        return near[int(rand() * len(near))]

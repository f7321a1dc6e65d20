"""The one whose room is used the least."""

from routing.filters import UNDECLARED, Seen
from routing.strategies.base import Pool


class LeastLoad:
    """Running calls ÷ declared concurrency; of several the one that the session, else the task, belongs to."""

    def pick(self, pool: Pool) -> Seen:
        used = [running / (one.instance.max_concurrency or UNDECLARED) for running, one in pool.options]
        least = min(used)
        return pool.on_ring([option for option, share in zip(pool.options, used, strict=True) if share == least])

"""The same instance for the same session, or task, whoever asks."""

from routing.filters import Seen
from routing.strategies.base import Pool


class ConsistentHash:
    """By the ring: instances have many points each, so that one that comes or goes moves only its own share."""

    def pick(self, pool: Pool) -> Seen:
        return pool.on_ring(pool.options)

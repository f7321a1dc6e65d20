"""Each in turn, the heavier ones more often, and not several times in a row."""

from routing.filters import Seen
from routing.loads import Key
from routing.strategies.base import Pool

REMEMBERED = 2  # times as many instances as are there are remembered; more are forgotten


class WeightedRoundRobin:
    """Smooth: every instance gains its weight each time, the one with the most is taken and pays what all gained.

    5:1:1 gives a a b a c a a and not a a a a a b c. One process's turns; those of several add up to the same shares.
    """

    def __init__(self) -> None:
        self._gained: dict[tuple[str, str], dict[Key, float]] = {}

    def pick(self, pool: Pool) -> Seen:
        gained = self._gained.setdefault((pool.ask.namespace, pool.ask.ability), {})
        paid, most, chosen = 0.0, float("-inf"), pool.options[0][1]
        for _, one in pool.options:
            has = gained[one.key] = gained.get(one.key, 0.0) + one.weight
            paid += one.weight
            if has > most:
                most, chosen = has, one
        gained[chosen.key] -= paid
        if len(gained) > REMEMBERED * len(pool.layout.seen):
            for gone in gained.keys() - {one.key for one in pool.layout.seen}:
                del gained[gone]
        return chosen

"""Evening out an ability's slots between processes: who has more of them leaves one that comes free to others."""

import time
from collections.abc import Mapping

from routing.loads import Loads

YIELD_S = 0.25  # a slot that another process should have is left to it for so long
YIELD_AGAIN_S = 0.4
KEEP_S = 1.0  # where there are fewer slots than processes each has one for so long

AbilityKey = tuple[str, str]  # namespace, ability


class Evening:
    """What this process knows of the others, and when it gave something away. Times are monotonic seconds."""

    def __init__(self, loads: Loads):
        self._loads = loads
        self._others: dict[AbilityKey, int] = {}  # fewest slots of another process with tasks in line
        self._yielded: dict[AbilityKey, float] = {}  # when this process last left a slot to another
        self.had_none: dict[AbilityKey, float] = {}  # … and when it last had none itself

    def hear(self, least: Mapping[AbilityKey, int]) -> None:
        """Where tasks wait in other processes too, and how few slots one of those has."""
        now = time.monotonic()
        self._others = dict(least)
        self._yielded = {ability: at for ability, at in self._yielded.items() if ability in least}
        self.had_none = {
            ability: self.had_none.get(ability, 0.0) if self._loads.own(ability) else now for ability in least
        }

    def yields(self, ability: AbilityKey) -> bool:
        """Whether another process should have a slot that comes free now: one with two less than are here or fewer, or
        with none.

        Rarely, as the slot is idle for a moment, and as it takes a while until the others' new counts are known here.
        """
        now, least, own = time.monotonic(), self._others.get(ability), self._loads.own(ability)
        if least is None or now < self._yielded.get(ability, 0.0) + YIELD_AGAIN_S:
            return False
        has_more = own >= least + 2 or (own > least == 0 and now >= self.had_none.get(ability, 0.0) + KEEP_S)
        if has_more:
            self._yielded[ability] = now
        return has_more

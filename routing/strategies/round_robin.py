"""Each in turn."""

from routing.filters import Seen
from routing.loads import Key
from routing.strategies.base import Pool


class RoundRobin:
    """Takes the instance after the one that it took last for the same ability, in the order of their names.

    Remembering a name and not a number keeps the turn when instances come and go.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Key] = {}

    def pick(self, pool: Pool) -> Seen:
        ability = (pool.ask.namespace, pool.ask.ability)
        last = self._last.get(ability)
        in_order = sorted((one for _, one in pool.options), key=lambda one: one.key)
        chosen = next((one for one in in_order if last is not None and one.key > last), in_order[0])
        self._last[ability] = chosen.key
        return chosen

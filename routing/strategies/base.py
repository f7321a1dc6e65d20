"""What a strategy is."""

from collections.abc import Callable, Sequence
from typing import Protocol

from routing.ask import Ask, Load
from routing.snapshot.model import InstanceView

Rand = Callable[[], float]  # numbers in [0, 1)


class Strategy(Protocol):
    """Picks one of at least one instance, all of which may take the task; deterministic given `rand`."""

    def pick(self, instances: Sequence[InstanceView], ask: Ask, loads: Load, rand: Rand) -> InstanceView: ...


def weight_of(instance: InstanceView) -> float:
    """The instance's own weight as it is now: 1.0 is that of an ordinary instance."""
    return instance.weight * instance.weight_percent / 10_000

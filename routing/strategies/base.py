"""What a strategy is, and what it chooses from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from routing.ask import Ask
from routing.filters import Seen
from routing.layout import Layout

Rand = Callable[[], float]  # numbers in [0, 1)
Option = tuple[int, Seen]  # calls running there, and who it is


@dataclass(slots=True)
class Pool:
    """At least one option, all of which may take the task, in the order of the layout."""

    options: Sequence[Option]
    layout: Layout
    ask: Ask
    rand: Rand

    @property
    def sticky(self) -> str:
        """What the same instance is wanted for again: the session, else the task."""
        return self.ask.session_id or str(self.ask.task_id)

    def on_ring(self, options: Sequence[Option]) -> Seen:
        """The one of these that the session, else the task, belongs to."""
        by_number = {one.number: one for _, one in options}
        found = self.layout.ring.first(self.sticky, by_number)
        return by_number[found] if found is not None else options[0][1]


class Strategy(Protocol):
    """Picks one; deterministic given the pool and its `rand`."""

    def pick(self, pool: Pool) -> Seen: ...

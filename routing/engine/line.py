"""Who waits for an ability's next free slot: high priority first, within a priority one client after the other, and of
one client's whoever has been due for longest, however late it came to the line."""

import asyncio
import datetime as dt
import time
from bisect import insort
from collections import OrderedDict

PRIORITIES = 3

Turn = tuple[int, str]  # priority (0 = high) and client
Waiter = asyncio.Future[bool]
Place = tuple[dt.datetime, int, Waiter]  # since when it is due, and in which order they came


class Line:
    """The waiting tasks of one ability. Changed on the event loop only; any thread may ask how long it is."""

    def __init__(self) -> None:
        self.pace: int | None = None  # how many were woken in the last second; None before there was one
        self._woken, self._since = 0, time.monotonic()
        self._turns: tuple[OrderedDict[str, list[Place]], ...] = tuple(OrderedDict() for _ in range(PRIORITIES))
        self._counts = [0] * PRIORITIES
        self._came = 0

    def __len__(self) -> int:
        return sum(self._counts)

    def before(self, priority: int) -> int:
        """How many of this priority or a higher one wait."""
        return sum(self._counts[: priority + 1])

    def has(self, turn: Turn) -> bool:
        """Whether this client waits with this priority."""
        return self.of(turn) > 0

    def of(self, turn: Turn) -> int:
        """How many of this client wait with this priority."""
        priority, client = turn
        return len(self._turns[priority].get(client, ()))

    def clients(self, turn: Turn) -> int:
        """Among how many clients the slots for this priority are shared out, this one included."""
        priority, client = turn
        return len(self._turns[priority]) + (client not in self._turns[priority])

    def add(self, turn: Turn, waiter: Waiter, since: dt.datetime, *, ahead: bool = False) -> None:
        """Put it in line; `ahead` gives its client the next turn, as it had its own in vain."""
        priority, client = turn
        self._came += 1
        insort(self._turns[priority].setdefault(client, []), (since, self._came, waiter))
        if ahead:
            self._turns[priority].move_to_end(client, last=False)
        self._counts[priority] += 1

    def remove(self, turn: Turn, waiter: Waiter) -> None:
        """Take it out, if it is still there."""
        priority, client = turn
        queue = self._turns[priority].get(client, [])
        for place, (_, _, other) in enumerate(queue):
            if other is waiter:
                del queue[place]
                self._counts[priority] -= 1
                if not queue:
                    del self._turns[priority][client]
                return

    def wake_first(self) -> None:
        """Wake whose turn it is; its client is the last to have the next one."""
        while waiter := self._next():
            if not waiter.done():
                waiter.set_result(True)
                self._woken += 1
                return

    def measure(self, now: float) -> None:
        """Take its pace once a second; `now` is monotonic."""
        if now - self._since >= 1.0:
            self.pace = round(self._woken / (now - self._since))
            self._woken, self._since = 0, now

    def _next(self) -> Waiter | None:
        for priority, turns in enumerate(self._turns):
            if turns:
                client, queue = turns.popitem(last=False)
                _, _, waiter = queue.pop(0)
                self._counts[priority] -= 1
                if queue:
                    turns[client] = queue
                return waiter
        return None

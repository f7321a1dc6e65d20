"""Calls from many threads made one: while one batch is under way the next gathers, so nobody waits for a timer."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

LIMIT = 100


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False, slots=True)
class _Call(Generic[Item, Made]):
    item: Item
    woken: threading.Lock = field(default_factory=_held_lock)  # released to wake; an Event costs five times as much
    done: bool = False
    made: Made | None = None
    error: BaseException | None = None


class Gathered(Generic[Item, Made]):
    """Does items in batches on the threads that bring them: whoever finds nobody at work does it for all that wait.

    `work` gives one result for each item, in their order; what it raises is raised to everyone in the batch.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Made]], limit: int = LIMIT):
        self._work, self._limit = work, limit
        self._lock = threading.Lock()
        self._waiting: deque[_Call[Item, Made]] = deque()
        self._busy = False

    def do(self, item: Item) -> Made:
        """The result for this item once its batch is done."""
        call: _Call[Item, Made] = _Call(item)
        with self._lock:
            self._waiting.append(call)
            leads, self._busy = not self._busy, True
        if not leads:
            call.woken.acquire()
        if not call.done:  # nobody was at work, or the lead was handed on: this call is the first in line
            self._lead()
        if call.error is not None:
            raise call.error
        return call.made  # type: ignore[return-value]

    def _lead(self) -> None:
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(self._limit, len(self._waiting)))]
        try:
            for call, made in zip(batch, self._work([call.item for call in batch]), strict=True):
                call.made = made
        except BaseException as error:
            for call in batch:
                call.error = error
        finally:
            self._hand_on(batch)

    def _hand_on(self, batch: list[_Call[Item, Made]]) -> None:
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._busy = following is not None
        for call in batch:
            call.done = True
            call.woken.release()
        if following is not None:
            following.woken.release()

"""The slots that this process holds in Redis: taken and given back in batches, renewed together.

Whoever talks to Redis does so under one lock and looks only then at what is held and what has ended: so a renewal never
brings back what was given back, and a count always tells what of it is this process's own.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from common.redis import RedisAway
from routing.limits import slots
from routing.limits.slots import LEASE_MS, Place, Slot
from routing.loads import Loads

log = logging.getLogger(__name__)

RENEW_S = 5.0
_PART = 200  # slots renewed in one call: a script holds up everyone


class Leases:
    """Safe to use from any thread; only `finish` and what says so may be used on an event loop.

    `mend` puts back into Redis what the database knows to be open. While Redis is away everything is granted: whoever
    asked has counted this process's own.
    """

    def __init__(self, loads: Loads, mend: Callable[[], object]):
        self._loads, self._mend = loads, mend
        self._lock = threading.Lock()
        self._held: dict[str, Slot] = {}
        self._ended: deque[Slot] = deque()  # not held any more, and Redis does not know it yet
        self._ours: Counter[Place] = Counter()  # held or ended
        self._is_away = False
        self._has_lost_kept = False  # an attempt that nobody renews began to be one while Redis was away
        self._renewed_at = time.monotonic()

    def take(self, asked: Sequence[Slot]) -> list[str]:
        """For each slot why it is refused, empty where it was granted."""
        with self._lock:
            ended = self._pop_ended()
            try:
                taken = slots.take(asked, ended)
                if taken is None:
                    self._mend()
                    taken = slots.take(asked, ended)
            except RedisAway:
                taken = None
                self._went_away()
            refused = [""] * len(asked) if taken is None else taken.refused
            for slot, why in zip(asked, refused, strict=True):
                if not why:
                    self._held[slot.attempt] = slot
                    self._ours.update(slot.places)
            if taken is not None:
                self._tell(taken.counts)
            return refused

    def finish(self, slot: Slot) -> None:
        """It is over; Redis hears of it with the next batch, or by `flush`. Fit for an event loop; may be repeated."""
        if self._held.pop(slot.attempt, None) is not None:
            self._ended.append(slot)

    def keep(self, kept: Iterable[tuple[Slot, int]]) -> None:
        """The agents work on their own for at most so many ms: whoever ends the attempts gives the slots back."""
        mine = [(slot, ms) for slot, ms in kept if self._held.pop(slot.attempt, None) is not None]
        if not mine:
            return
        with self._lock:
            for slot, _ in mine:
                self._give_up(slot)
            try:
                self._tell(slots.hold(mine))
            except RedisAway:
                self._has_lost_kept = True
                self._went_away()

    def give_back(self, kept: Sequence[Slot]) -> None:
        """The attempts of these, kept before, have ended meanwhile."""
        if not kept:
            return
        with self._lock:
            try:
                slots.end(kept)
            except RedisAway:
                self._went_away()

    def flush(self) -> None:
        """Give back what has ended, if no batch has done so."""
        if not self._ended:
            return
        with self._lock:
            try:
                slots.end(self._pop_ended())
            except RedisAway:
                self._went_away()

    def has_ended(self) -> bool:
        """Whether there is something to flush. Fit for an event loop."""
        return bool(self._ended)

    def refresh(self, places: Sequence[Place]) -> None:
        """Ask how many the others have in flight at these places."""
        if not places or self._is_away:
            return
        with self._lock:
            try:
                self._tell(slots.count(places))
            except RedisAway:
                self._went_away()

    def tick(self) -> None:
        """Each second: what is due of renewing, giving back and asking; after an outage all that is held."""
        try:
            if self._is_away:
                self._recover()
            elif time.monotonic() >= self._renewed_at + RENEW_S:
                self._renew()
        except RedisAway:
            self._went_away()
        self.flush()
        self.refresh(self._loads.elsewhere())

    def _recover(self) -> None:
        self._renew()
        if self._has_lost_kept:
            self._mend()
            self._has_lost_kept = False
        self._is_away = False
        log.info("slots are shared again")

    def _renew(self) -> None:
        for attempts in _parts(list(self._held)):
            with self._lock:
                held = [slot for attempt in attempts if (slot := self._held.get(attempt))]
                self._tell(slots.hold((slot, LEASE_MS) for slot in held))
        self._renewed_at = time.monotonic()

    def _pop_ended(self) -> list[Slot]:
        """From here on they are not ours; should Redis not hear of it now, their leases end by themselves."""
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        for slot in ended:
            self._give_up(slot)
        return ended

    def _give_up(self, slot: Slot) -> None:
        for place in slot.places:
            self._ours[place] -= 1
            if self._ours[place] <= 0:
                del self._ours[place]

    def _went_away(self) -> None:
        if not self._is_away:
            log.warning("slots are counted by each process for itself: Redis is away")
        self._is_away = True
        self._loads.tell(None)

    def _tell(self, counts: dict[Place, int]) -> None:
        self._loads.tell({place: max(0, count - self._ours[place]) for place, count in counts.items()})


def _parts(attempts: list[str]) -> list[list[str]]:
    return [attempts[at : at + _PART] for at in range(0, len(attempts), _PART)]

"""Whose turn it is to be called, so that receivers that hang hold up nobody else.

A receiver is whatever is well or hangs as one: of callbacks an address without its query, of status addresses an
instance. Several may share a host. A receiver's temper says how many tries at a time it gets:

| temper  | its last try                         | tries at a time                                              |
|---------|--------------------------------------|--------------------------------------------------------------|
| quick   | was over soon, whatever was answered | 20 a host                                                    |
| new     | is its first                         | 1 a receiver, 600 a host, 1000 in all                        |
| hanging | got no answer, or has none yet       | 2 a receiver, 1000 in all; 20 a host while fewer than 300 hang |

A try without an answer after a second leaves its place to others, and makes its receiver a hanging one unless that has
answered another lately: it may be this machine that is slow. Who is quick or
new waits in line for a place, receivers of a host in turn; for who hangs the wait would be long, so it comes again
later. Tempers are a process's own. Used on one event loop only.
"""

import asyncio
import random
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from urllib.parse import urlsplit

QUICK, NEW, HANGING = "quick", "new", "hanging"
PER_HOST = 20
NEW_A_HOST, NEW_IN_ALL = 600, 1000
HANGING_LEAST, HANGING_FEW, HANGING_IN_ALL = 2, 300, 1000
SLOW_S = 1.0  # who has not answered by then hangs …
FRESH_S = 5.0  # … unless it has answered another so lately
LATE_S = 5.0  # who took so long to answer does so again
TRY_S = 10.0  # the longest try
RECHECK_S = 1.0  # places that hosts share come free unheard
AGAIN_S, LONGEST_S = 5.0, 60.0  # bounds of the time after which one that found no place comes again
REMEMBERED = 20_000  # receivers


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who is called: `address` names it among all, and those of one `host` share places."""

    host: str
    address: str


def receiver_of(url: str) -> Receiver:
    """The receiver behind a URL; what is no URL with a host is one of its own."""
    parts = urlsplit(url)
    address = url.split("?", 1)[0].split("#", 1)[0]
    return Receiver(parts.netloc or address, address)


@dataclass(slots=True)
class _Known:
    hangs: bool = False
    answered_at: float = float("-inf")  # loop time
    next_at: float = 0.0  # loop time for which the last one without a place was put off


class Turn:
    """A place for one try, until `end`."""

    def __init__(self, turns: "Turns", receiver: Receiver, temper: str):
        self.receiver, self.temper = receiver, temper
        self._turns = turns
        loop = asyncio.get_running_loop()
        self._clock, self._began = loop.time, loop.time()
        self._timer = loop.call_later(SLOW_S, turns.hung, self)

    def end(self, *, answered: bool) -> None:
        """The try is over; `answered` is whether any answer came."""
        self._timer.cancel()
        took_s = self._clock() - self._began
        self._turns.ended(self, hung=took_s >= (LATE_S if answered else SLOW_S))


class Turns:
    """The places of one process and who waits for them; `per_host` are those of a host's quick receivers."""

    def __init__(self, per_host: int = PER_HOST):
        self._per_host = per_host
        self._known: OrderedDict[str, _Known] = OrderedDict()  # by address, the last used last
        self._taken: Counter[tuple[str, ...]] = Counter()
        self._lines: dict[str, OrderedDict[Receiver, deque[asyncio.Future[Turn | None]]]] = {}  # by host
        self.waiting = 0

    async def take(self, receiver: Receiver, patience_s: float) -> Turn | None:
        """A place for one try, once there is one; None if there is none in time, or the receiver hangs and has none."""
        clock = asyncio.get_running_loop().time
        until = clock() + patience_s
        while True:
            temper = self.temper_of(receiver)
            if self._has_place(receiver, temper):
                return self._begin(receiver, temper)
            left = until - clock()
            if temper == HANGING or left <= 0:
                return None
            if (turn := await self._in_line(receiver, min(left, RECHECK_S))) is not None:
                return turn

    def temper_of(self, receiver: Receiver) -> str:
        known = self._known.get(receiver.address)
        if known is None:
            return NEW
        return HANGING if known.hangs else QUICK

    def again_in_s(self, receiver: Receiver) -> float:
        """After how many seconds one that found no place should come again: as many at a time as there are places."""
        known, now = self._known.get(receiver.address), asyncio.get_running_loop().time()
        if known is None or not known.hangs:
            return AGAIN_S
        known.next_at = max(known.next_at, now + AGAIN_S) + TRY_S / self._hanging_places()
        if known.next_at <= now + LONGEST_S:
            return known.next_at - now
        known.next_at = now + LONGEST_S
        return random.uniform(LONGEST_S / 2, LONGEST_S)  # noqa: S311 - spreads load, guards nothing

    def hung(self, turn: Turn) -> None:
        """A try has had no answer for so long that its place is left to others."""
        self._count(turn, -1)
        turn.temper = HANGING
        self._count(turn, +1)
        self._learn(turn.receiver, hangs=True)
        self._serve(turn.receiver.host)

    def ended(self, turn: Turn, *, hung: bool) -> None:
        """A try is over: whoever is next may begin."""
        self._count(turn, -1)
        self._learn(turn.receiver, hangs=hung)
        self._serve(turn.receiver.host)

    def _has_place(self, receiver: Receiver, temper: str) -> bool:
        own, host, all_of_them = (self._taken[key] for key in _keys(receiver, temper))
        if temper == QUICK:
            return host < self._per_host
        if temper == NEW:
            return own < 1 and host < NEW_A_HOST and all_of_them < NEW_IN_ALL
        return all_of_them < HANGING_IN_ALL and (own < HANGING_LEAST or host < self._hanging_places())

    def _hanging_places(self) -> int:
        return self._per_host if self._taken[(HANGING,)] < HANGING_FEW else HANGING_LEAST

    def _begin(self, receiver: Receiver, temper: str) -> Turn:
        turn = Turn(self, receiver, temper)
        self._count(turn, +1)
        return turn

    def _count(self, turn: Turn, by: int) -> None:
        for key in _keys(turn.receiver, turn.temper):
            self._taken[key] += by
            if not self._taken[key]:
                del self._taken[key]

    def _learn(self, receiver: Receiver, *, hangs: bool) -> None:
        known, now = self._known.setdefault(receiver.address, _Known()), asyncio.get_running_loop().time()
        known.hangs = hangs and now - known.answered_at > FRESH_S
        if not hangs:
            known.answered_at, known.next_at = now, 0.0
        self._known.move_to_end(receiver.address)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def _in_line(self, receiver: Receiver, seconds: float) -> Turn | None:
        """The turn that comes within so many seconds; None also where there will be none for now."""
        mine: asyncio.Future[Turn | None] = asyncio.get_running_loop().create_future()
        line = self._lines.setdefault(receiver.host, OrderedDict()).setdefault(receiver, deque())
        line.append(mine)
        self.waiting += 1
        try:
            await asyncio.wait([mine], timeout=seconds)
            return mine.result() if mine.done() else None
        finally:
            self.waiting -= 1
            self._leave(receiver, mine)

    def _leave(self, receiver: Receiver, mine: "asyncio.Future[Turn | None]") -> None:
        """Out of the line, if nobody has taken it out yet; nobody waits at hosts without a line."""
        mine.cancel()
        lines = self._lines.get(receiver.host, OrderedDict())
        if receiver in lines and mine in lines[receiver]:
            lines[receiver].remove(mine)
        if receiver in lines and not lines[receiver]:
            del lines[receiver]
        if not lines:
            self._lines.pop(receiver.host, None)

    def _serve(self, host: str) -> None:
        """Give the places that are free at this host to those in line, one to each receiver in turn."""
        lines = self._lines.get(host)
        is_served = bool(lines)
        while lines and is_served:
            is_served = False
            for receiver in list(lines):
                is_served |= self._serve_one(lines, receiver)

    def _serve_one(
        self, lines: "OrderedDict[Receiver, deque[asyncio.Future[Turn | None]]]", receiver: Receiver
    ) -> bool:
        temper, line = self.temper_of(receiver), lines[receiver]
        has_place = self._has_place(receiver, temper)
        if not has_place and temper != HANGING:
            return False
        first = line.popleft()
        if not first.done():
            first.set_result(self._begin(receiver, temper) if has_place else None)
        lines.move_to_end(receiver)
        if not line:
            del lines[receiver]
        return True


def _keys(receiver: Receiver, temper: str) -> tuple[tuple[str, ...], ...]:
    """What a place is counted under: the receiver's, its host's and everybody's."""
    return (temper, "receiver", receiver.address), (temper, "host", receiver.host), (temper,)

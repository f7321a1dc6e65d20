"""Tasks that only wait for a busy instance wait here, in memory, for the next free slot: a poll would leave it idle."""

import asyncio
import datetime as dt
from collections.abc import Sequence

from routing.engine.line import Line, Turn
from routing.loads import Key, Loads

LIMIT = 100  # waiting tasks an ability; the others wait in the database
STRETCH = 4  # so many times that, where clients that have nothing in line yet come to it
NORMAL: Turn = (1, "")
NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)

AbilityKey = tuple[str, str]  # namespace, ability
Places = Sequence[Key]  # an instance's and an ability's


class Slots:
    """The loads of this process's instances and who waits for them. Used on the event loop only."""

    def __init__(self, loads: Loads, limit: int = LIMIT):
        self.loads = loads
        self._limit = limit
        self._waiting: dict[AbilityKey, Line] = {}
        self._agents: dict[AbilityKey, frozenset[str]] = {}
        self._passed_over: set[AbilityKey] = set()
        self.awaited, self.released = asyncio.Event(), asyncio.Event()  # for whoever does something about it

    def acquire(self, places: Places) -> None:
        self.loads.acquire(places)

    def release(self, places: Places) -> None:
        """Give a slot back and wake the first in line of each ability that it may serve."""
        self.loads.release(places)
        self.released.set()
        self._wake({ability: 1 for place in places for ability in self._concerned(place)})

    def wake_freed(self) -> None:
        """Count what Redis told of other processes, and wake as many as there are slots that they gave back."""
        for place, count in self.loads.hear():
            self._wake(dict.fromkeys(self._concerned(place), count))

    def is_awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def awaited_places(self) -> list[Key]:
        """Where a slot that another process gives back would serve someone who waits here."""
        return [place for place in self.loads.elsewhere() if self._concerned(place)]

    def _concerned(self, place: Key) -> list[AbilityKey]:
        """The abilities with someone waiting that a slot at this place, an instance or an ability, may serve."""
        if len(place) == 2:
            return [ability for ability in self._waiting if ability == place]
        namespace, agent_id, _ = place
        return [one for one in self._waiting if one[0] == namespace and agent_id in self._agents[one]]

    def _wake(self, counts: dict[AbilityKey, int]) -> None:
        for ability, count in counts.items():
            for _ in range(count):
                self._waiting[ability].wake_first()

    def is_full(self, ability: AbilityKey, turn: Turn | None = None) -> bool:
        """Whether the line takes no more, of anybody or in this turn: those of lower priority do not count then, and a
        client that has nothing in it yet may still come."""
        line = self._waiting.get(ability)
        if line is None or turn is None:
            return line is not None and len(line) >= self._limit
        return line.before(turn[0]) >= self._limit and (line.has(turn) or len(line) >= STRETCH * self._limit)

    def refuses(self, priority: int, namespace: str, ability: str, client: str) -> bool:
        """Whether no further task of this lane should be claimed just now; any thread may ask."""
        return self.is_full((namespace, ability), (priority, client))

    def full(self) -> frozenset[AbilityKey]:
        """Abilities of which most lanes should not be claimed for just now; any thread may ask."""
        full = frozenset(ability for ability in list(self._waiting) if self.is_full(ability))
        self._passed_over |= full
        return full

    def has_reopened(self, ability: AbilityKey) -> bool:
        """Whether an ability that claims passed over takes more again; says so once."""
        if ability in self._passed_over and len(self._waiting.get(ability, ())) <= self._limit // 2:
            self._passed_over.discard(ability)
            return True
        return False

    async def wait(
        self,
        ability: AbilityKey,
        agents: frozenset[str],
        seconds: float,
        turn: Turn = NORMAL,
        since: dt.datetime = NEVER,
    ) -> bool:
        """Whether a slot of one of the agents came free within the time; it may be gone again by then. `since` is when
        the task became due."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(ability, Line())
        self._agents[ability] = agents
        waiting.add(turn, future, since)
        self.awaited.set()
        try:
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return False
        finally:
            waiting.remove(turn, future)
            if not waiting and self._waiting.get(ability) is waiting:
                del self._waiting[ability], self._agents[ability]

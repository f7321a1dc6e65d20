"""Tasks that only wait for a busy instance wait here, in memory, for the next free slot: a poll would leave it idle."""

import asyncio
import datetime as dt
import time
from collections.abc import Mapping, Sequence

from routing.engine import capacity
from routing.engine.evening import YIELD_S, AbilityKey, Evening
from routing.engine.line import Line, Turn
from routing.loads import Key, Loads
from routing.services.lanes import Lane

LIMIT = 100  # waiting tasks an ability at most; the others wait in the database
LEAST = 10  # so many may wait however slowly slots come free
NOT_FREE_S = 1.0  # slots that a task could not use do not count as free for so long
WIDE, WIDE_FOR_S = 400, 5.0
STRETCH = 4  # so many times that, where clients that have nothing in line yet come to it
NORMAL: Turn = (1, "")
NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)

Places = Sequence[Key]  # an instance's and an ability's


class Slots:
    """The loads of this process's instances and who waits for them. Used on the event loop only."""

    def __init__(self, loads: Loads, limit: int = LIMIT):
        self.loads = loads
        self._limit = limit
        self._waiting: dict[AbilityKey, Line] = {}
        self._agents: dict[AbilityKey, frozenset[str]] = {}
        self._evening = Evening(loads)
        self._turned_away: dict[AbilityKey, float] = {}  # when a task found neither slot nor place
        self._passed_over: dict[AbilityKey, int] = {}
        self.awaited, self.released = asyncio.Event(), asyncio.Event()  # for whoever does something about it

    def acquire(self, places: Places) -> None:
        self.loads.acquire(places)

    def release(self, places: Places) -> None:
        """Give a slot back and wake the first in line of each ability that it may serve; where another process has
        tasks in line and too few slots, leave it to that for a moment."""
        self.released.set()
        concerned = {ability for place in places for ability in self._concerned(place)}
        if any(self._evening.yields(ability) for ability in concerned):
            asyncio.get_running_loop().call_later(YIELD_S, self._free, places)
        else:
            self._free(places)

    def _free(self, places: Places) -> None:
        self.loads.release(places)
        self._wake({ability: 1 for place in places for ability in self._concerned(place)})

    def held(self) -> dict[AbilityKey, int]:
        """The slots that this process has of each ability for which tasks wait here."""
        return {ability: self.loads.own(ability) for ability in self._waiting}

    def others_wait(self, least: Mapping[AbilityKey, int]) -> None:
        """Where tasks wait in other processes too, and how few slots one of those has."""
        self._evening.hear(least)

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

    def takes(self, priority: int, lane: Lane) -> int:
        """How many more tasks of this lane find a slot or a place in line; any thread may ask."""
        key, turn = (lane.namespace, lane.ability), (priority, lane.client)
        since = time.monotonic() - self._turned_away.get(key, float("-inf"))
        free = 0 if since < NOT_FREE_S else capacity.free(key, self.loads)
        if free and since < WIDE_FOR_S:
            free += WIDE  # behind those that cannot use what is free may be some that can
        return self._left(key, turn) + free

    def is_full(self, ability: AbilityKey, turn: Turn) -> bool:
        """Whether the line takes no more in this turn. Asked for who found no slot: what is free is not for them."""
        if self._left(ability, turn) > 0:
            return False
        self._turned_away[ability] = time.monotonic()
        return True

    def _left(self, ability: AbilityKey, turn: Turn) -> int:
        """Places that the line has in this turn: those of lower priority do not count, and each client may have its
        equal part whatever others have."""
        line = self._waiting.get(ability)
        if line is None:
            return self._limit
        limit = self._limit_of(line)
        left = limit - line.before(turn[0])
        if len(line) >= STRETCH * self._limit:
            return left
        return max(left, max(1, limit // line.clients(turn)) - line.of(turn))

    def _limit_of(self, line: Line) -> int:
        """As many as have their turn within a second: who waits longer only goes to and fro."""
        return self._limit if line.pace is None else min(self._limit, max(LEAST, line.pace))

    def measure(self, now: float) -> None:
        """Take each line's pace; `now` is monotonic."""
        for line in self._waiting.values():
            line.measure(now)

    def pass_over(self, abilities: Mapping[AbilityKey, int]) -> None:
        """Claims left work of these abilities behind, of this priority at the highest; any thread may say so."""
        for ability, priority in abilities.items():
            self._passed_over[ability] = min(priority, self._passed_over.get(ability, priority))

    def has_reopened(self, ability: AbilityKey) -> bool:
        """Whether an ability that claims passed over takes more again; says so once."""
        if ability not in self._passed_over:
            return False
        line = self._waiting.get(ability)
        if line and line.before(self._passed_over[ability]) > self._limit_of(line) // 2:
            return False
        del self._passed_over[ability]
        return True

    async def wait(
        self,
        ability: AbilityKey,
        agents: frozenset[str],
        seconds: float,
        turn: Turn = NORMAL,
        since: dt.datetime = NEVER,
        ahead: bool = False,
    ) -> bool:
        """Whether a slot of one of the agents came free within the time; it may be gone again by then. `since` is when
        the task became due; `ahead` says that it had its turn, and the slot was gone."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(ability, Line())
        self._agents[ability] = agents
        waiting.add(turn, future, since, ahead=ahead)
        self.awaited.set()
        try:
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return False
        finally:
            waiting.remove(turn, future)
            if not waiting and self._waiting.get(ability) is waiting:
                del self._waiting[ability], self._agents[ability]

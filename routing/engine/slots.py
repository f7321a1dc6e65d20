"""Tasks that only wait for a busy instance wait here, in memory, for the next free slot: a poll would leave it idle."""

import asyncio
from collections import deque

from routing.loads import Key, Loads

LIMIT = 100  # waiting tasks an ability; the others wait in the database, where priorities and fairness are kept

AbilityKey = tuple[str, str]  # namespace, ability


class Slots:
    """The loads of this process's instances and who waits for them. Used on the event loop only."""

    def __init__(self, loads: Loads, limit: int = LIMIT):
        self.loads = loads
        self._limit = limit
        self._waiting: dict[AbilityKey, deque[asyncio.Future[bool]]] = {}
        self._agents: dict[AbilityKey, frozenset[str]] = {}
        self._passed_over: set[AbilityKey] = set()

    def acquire(self, key: Key) -> None:
        self.loads.acquire([key])

    def release(self, key: Key) -> None:
        """Give a slot back and wake the first in line of each ability that the agent serves."""
        self.loads.release([key])
        namespace, agent_id, _ = key
        for ability, waiting in list(self._waiting.items()):
            if ability[0] == namespace and agent_id in self._agents[ability]:
                _wake_first(waiting)

    def is_full(self, ability: AbilityKey) -> bool:
        return len(self._waiting.get(ability, ())) >= self._limit

    def full(self) -> frozenset[AbilityKey]:
        """Abilities of which no further task should be claimed just now; any thread may ask."""
        full = frozenset(ability for ability in list(self._waiting) if self.is_full(ability))
        self._passed_over |= full
        return full

    def has_reopened(self, ability: AbilityKey) -> bool:
        """Whether an ability that claims passed over takes more again; says so once."""
        if ability in self._passed_over and len(self._waiting.get(ability, ())) <= self._limit // 2:
            self._passed_over.discard(ability)
            return True
        return False

    async def wait(self, ability: AbilityKey, agents: frozenset[str], seconds: float) -> bool:
        """Whether a slot of one of the agents came free within the time; it may be gone again by then."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(ability, deque())
        self._agents[ability] = agents
        waiting.append(future)
        try:
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return False
        finally:
            if future in waiting:
                waiting.remove(future)
            if not waiting and self._waiting.get(ability) is waiting:
                del self._waiting[ability], self._agents[ability]


def _wake_first(waiting: deque[asyncio.Future[bool]]) -> None:
    while waiting:
        future = waiting.popleft()
        if not future.done():
            future.set_result(True)
            return

"""Offers: tasks that wait to be fetched, and who waits for some. One Redis message an offer, and a look each second.

An offer is a waiting task whose last event says so; it is made by whoever routed the task, and taken by a lease.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from common import broadcast, waits
from common.clock import now
from common.database import hot_cursor, robust
from routing import snapshot
from routing.snapshot import Snapshot

CHANNEL = "offers"

Key = tuple[str, str]  # namespace, agent id
Read = Callable[[list[Key]], Iterable[Key]]

_OFFERED = """
SELECT DISTINCT w.namespace, w.agent_id
FROM unnest(%(namespaces)s::text[], %(agents)s::text[], %(abilities)s::text[]) AS w(namespace, agent_id, ability)
WHERE EXISTS (SELECT FROM routing_task t JOIN routing_event e ON e.task_id = t.id AND e.seq = t.seq
  WHERE t.waiting AND t.priority IN (0, 1, 2) AND t.namespace = w.namespace AND t.ability = w.ability
    AND t.outcome IS NULL AND t.deadline_at > %(now)s
    AND e.event = 'WAITING' AND e.detail ->> 'reason' = %(prefix)s || w.agent_id)"""
_PREFIX = "PULL:"


def offer_to(agent_id: str) -> str:
    """The reason that a task waits for, once it was offered to this agent."""
    return _PREFIX + agent_id


def tell(namespace: str, agent_id: str) -> None:
    """Wake one who waits for this agent's tasks, in each process; never blocks, never raises."""
    broadcast.publish(CHANNEL, [namespace, agent_id])


_abilities: dict[str, tuple[Snapshot, dict[str, list[str]]]] = {}  # by namespace, for the snapshot that is there


def abilities_of(known: Snapshot, agent_id: str) -> list[str]:
    """The abilities whose tasks it may be offered: those behind which it stands, or is a substitute by their route."""
    kept = _abilities.get(known.namespace)
    if kept is None or kept[0] is not known:
        by_agent: defaultdict[str, list[str]] = defaultdict(list)
        for name, ability in known.abilities.items():
            behind = [ability, *(known.abilities.get(one) for one in ability.route.fallback.get("substitutes") or ())]
            for one in {candidate.agent.agent_id for each in behind if each for candidate in each.candidates}:
                by_agent[one].append(name)
        kept = _abilities[known.namespace] = (known, by_agent)
    return kept[1].get(agent_id, [])


@robust(patience=5.0)
def read_offered(keys: list[Key]) -> list[Key]:
    """Those of the agents for which something waits, in one query."""
    asked = [(*key, ability) for key in keys for ability in abilities_of(snapshot.current(key[0]), key[1])]
    values = {
        "namespaces": [one[0] for one in asked], "agents": [one[1] for one in asked],
        "abilities": [one[2] for one in asked], "now": now(), "prefix": _PREFIX,
    }  # fmt: skip
    with hot_cursor() as cursor:
        return [(row[0], row[1]) for row in cursor.execute(_OFFERED, values, prepare=True).fetchall()]


class Hub(waits.Hub[Key, Key]):
    """The waits of one event loop. A hint wakes the one that waits longest; the look each second wakes all of them."""

    CHANNELS = (CHANNEL,)

    def __init__(self, read: Read = read_offered):
        super().__init__(read)

    async def wait(self, key: Key, seconds: float) -> None:
        """Return when something may be there for this agent, at the latest after so long."""
        await self.wait_for(key, seconds)

    def found(self, one: Key) -> None:
        for wait in self.waits(one):
            wait.woken.set()

    def heard(self, _channel: str, message: object) -> None:
        if isinstance(message, list) and len(message) == 2:
            waiting = (one for one in self.waits((message[0], message[1])) if not one.woken.is_set())
            if (longest := next(waiting, None)) is not None:
                longest.woken.set()


hub = waits.PerLoop(Hub)
"""The hub of the running event loop; a web process has one."""

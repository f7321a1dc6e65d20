"""Offers: tasks that wait to be fetched, and who waits for some. One Redis message an offer, and a look each second.

An offer is a waiting task whose last event says so; it is made by whoever routed the task, and taken by a lease.
"""

import asyncio
import logging
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from common import broadcast
from common.clock import now
from common.database import hot_cursor, robust
from routing import snapshot
from routing.snapshot import Snapshot

log = logging.getLogger(__name__)

CHANNEL = "offers"
LOOK_S = 1.0

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


class Hub:
    """The waits of one event loop. A hint wakes the one that waits longest; the look each second wakes all of them."""

    def __init__(self, read: Read = read_offered):
        self._loop = asyncio.get_running_loop()
        self._read = read
        self._waiting: dict[Key, list[asyncio.Event]] = {}
        self._look = asyncio.Event()
        self._poll: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, "offers")
        self._listener = broadcast.Listener([CHANNEL], self._heard, self._missed)
        self._listener.start()

    async def wait(self, key: Key, seconds: float) -> None:
        """Return when something may be there for this agent, at the latest after so long."""
        woken = asyncio.Event()
        self._waiting.setdefault(key, []).append(woken)
        self._look.set()  # what was offered before this wait began is found by a first look
        if self._poll is None or self._poll.done():
            self._poll = self._loop.create_task(self._each_second())
        try:
            await asyncio.wait_for(woken.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            self._waiting[key].remove(woken)
            if not self._waiting[key]:
                del self._waiting[key]

    def close(self) -> None:
        self._listener.stop()
        self._reader.shutdown(wait=False)
        if self._poll is not None:
            self._poll.cancel()

    async def _each_second(self) -> None:
        while self._waiting:
            self._look.clear()
            try:
                offered = await self._loop.run_in_executor(self._reader, self._read, list(self._waiting))
            except Exception as problem:  # waits outlive a database that is away
                log.warning("offers are not looked for: %s", problem)
                offered = []
            for key in offered:
                for woken in self._waiting.get(key, ()):
                    woken.set()
            try:
                await asyncio.wait_for(self._look.wait(), LOOK_S)
            except TimeoutError:
                pass

    def _wake_one(self, key: Key) -> None:
        woken = next((one for one in self._waiting.get(key, ()) if not one.is_set()), None)
        if woken is not None:
            woken.set()

    def _heard(self, _channel: str, message: object) -> None:
        if isinstance(message, list) and len(message) == 2:
            self._call(self._wake_one, (message[0], message[1]))

    def _missed(self) -> None:
        self._call(self._look.set)

    def _call(self, function: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._listener.stop()  # the loop is gone


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop; a web process has one."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]

"""What waits for an ability: whether one more may, how long it would wait, and when there is room again.

The figures are read from the rows, each process for itself, and as often as that is cheap: seldom while there is much
room, before every decision where a few places are left. What this process has let in since is counted on top.
"""

import datetime as dt
import math
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from common.database import hot_cursor, robust
from routing.limits.capacity import behind
from routing.services.pace import Pace, Tempo
from routing.snapshot import Ability

QUEUE, INFLIGHT, WAIT = "route.queueMax", "route.maxInflight", "timeoutBudgetMs"
FEW, MANY = 20, 1_000  # places left: below the one each is looked at, above the other hardly any
RELAXED_S = 0.25
LEAST_S = 0.01
SPARE = 1.5  # of what runs add up to: for the moments between two runs, and for breakers that open meanwhile
COST_SHARE, OLDEST_S = 10, 1.0  # reading takes at most a tenth of the time, unless the figures would be too old
AGAIN_S = 1.0  # told on top: who came back just when the wait fits would often find that it has grown a little
HORIZON = dt.timedelta(seconds=60)  # what is put off for longer waits for its time, not for the ability
UNDER_WAY_S = 5.0  # a request that has not become a task by then never will

_COUNT = """
SELECT waiting.*, taken.*, ARRAY(SELECT id FROM routing_task WHERE id = ANY(%(under_way)s::uuid[]))
FROM (
  SELECT count(*) FILTER (WHERE priority = 0), count(*) FILTER (WHERE priority = 1),
    count(*) FILTER (WHERE priority = 2)
  FROM (
    SELECT t.priority FROM routing_task t
    WHERE t.waiting AND t.priority = ANY('{0,1,2}') AND t.namespace = %(namespace)s AND t.ability = %(ability)s
      AND t.due_at <= %(horizon)s LIMIT %(most)s) one
) waiting, (
  SELECT count(*) FILTER (WHERE t.state IN ('RECEIVED', 'RETRY_WAIT')),
    count(*) FILTER (WHERE t.state NOT IN ('RECEIVED', 'RETRY_WAIT'))
  FROM routing_worker w JOIN routing_task t ON t.worker = w.boot_id
  WHERE t.outcome IS NULL AND NOT t.waiting AND t.namespace = %(namespace)s AND t.ability = %(ability)s
) taken"""
_LANES = """
WITH RECURSIVE lane AS (
  SELECT ''::varchar AS client, 0 AS step
  UNION ALL
  SELECT (SELECT t.client FROM routing_task t
    WHERE t.waiting AND t.priority = %(priority)s AND t.namespace = %(namespace)s AND t.ability = %(ability)s
      AND t.client > l.client ORDER BY t.priority, t.namespace, t.ability, t.client LIMIT 1), l.step + 1
  FROM lane l WHERE l.client IS NOT NULL AND l.step < 64
)
SELECT l.client, (SELECT count(*) FROM (
  SELECT FROM routing_task t WHERE t.waiting AND t.priority = %(priority)s AND t.namespace = %(namespace)s
    AND t.ability = %(ability)s AND t.client = l.client AND t.due_at <= %(horizon)s LIMIT %(most)s) one)
FROM lane l WHERE l.client <> ''"""


class Lanes(NamedTuple):
    """How many wait of each client; `known` are those among them that this process let in after the figures."""

    counts: dict[str, int]
    known: frozenset[uuid.UUID]


@dataclass(slots=True)
class Figures:
    """One ability's queue as this process knows it. Held under the module's lock, except for reading."""

    waiting: tuple[int, int, int] = (0, 0, 0)  # high, normal, low
    held: int = 0  # claimed, and not sent yet
    running: int = 0
    read_at: float = float("-inf")  # monotonic; when the reading began
    cost_s: float = 0.0
    under_way: dict[uuid.UUID, tuple[float, str]] = field(
        default_factory=dict
    )  # let in here (when, whose), no rows yet
    since: dict[uuid.UUID, str] = field(
        default_factory=dict
    )  # became rows, as far as known after the reading had begun
    lanes: dict[int, Lanes] = field(default_factory=dict)  # by priority
    tempo: Tempo = field(default_factory=Tempo)

    @property
    def mine(self) -> int:
        return len(self.under_way) + len(self.since)

    @property
    def queued(self) -> int:
        return sum(self.waiting) + self.held + self.mine

    def mine_of(self, client: str, known: Collection[uuid.UUID]) -> int:
        """One client's of what this process has let in since the reading, without those that are known otherwise."""
        unsure = [whose for id, (_, whose) in list(self.under_way.items()) if id not in known]
        return sum(whose == client for whose in unsure) + sum(
            whose == client for id, whose in list(self.since.items()) if id not in known
        )

    def ahead_of(self, priority: int) -> int:
        return sum(self.waiting[: priority + 1]) + self.held + self.mine


@dataclass(frozen=True, slots=True)
class Entry:
    """A request that would wait for an ability."""

    task_id: uuid.UUID
    namespace: str
    client: str
    ability: Ability
    capacity: int
    priority: int
    budget_s: float

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.ability.name

    @property
    def queue_max(self) -> int | None:
        """How many may be queued."""
        return self._limit("queueMax")

    @property
    def inflight_max(self) -> int | None:
        """How many may be queued or running, where nothing is to wait."""
        return self._limit("maxInflight") if self.ability.route.settings.get("overflow") == "reject" else None

    def _limit(self, name: str) -> int | None:
        found = self.ability.route.limits.get(name)
        return None if found is None else int(found)


class Refusal(NamedTuple):
    """Which limit it is, and in how many seconds there should be room."""

    limit: str
    wait_s: float


_lock = threading.Lock()
_figures: defaultdict[tuple[str, str], Figures] = defaultdict(Figures)


def enter(entries: Sequence[Entry], now: dt.datetime) -> list[Refusal | None]:
    """Let each in that there is room for, in order; `finished` is to be told what became of it."""
    fresh: set[tuple[str, str]] = set()
    answers = []
    for one in entries:
        figures = _up_to_date(one, now, fresh)
        refusal = _refused(one, figures, now)
        if refusal is None:
            with _lock:
                figures.under_way[one.task_id] = time.monotonic(), one.client
        answers.append(refusal)
    return answers


def finished(entries: Sequence[Entry], *, became_tasks: bool) -> None:
    """These are rows now, or never will be."""
    with _lock:
        for one in entries:
            figures = _figures[one.key]
            if figures.under_way.pop(one.task_id, None) is not None and became_tasks:
                figures.since[one.task_id] = one.client


def _refused(one: Entry, figures: Figures, now: dt.datetime) -> Refusal | None:
    waiting = behind(figures.queued, figures.running, one.capacity)  # this one included, those that may begin not
    if one.queue_max is not None and waiting > one.queue_max:
        return Refusal(QUEUE, _room_in_s(one, figures, waiting - one.queue_max))
    if one.inflight_max is not None:
        over = figures.queued + figures.running + 1 - one.inflight_max
        return Refusal(INFLIGHT, _room_in_s(one, figures, over)) if over > 0 else None
    return _too_late(one, figures, now)


def _too_late(one: Entry, figures: Figures, now: dt.datetime) -> Refusal | None:
    """Refuse what would begin too late to end within its budget."""
    count = behind(figures.ahead_of(one.priority), figures.running, one.capacity)
    mean_s = _pace(one, figures).mean_s if count and one.capacity else None
    waits_s = figures.tempo.waits_s
    if mean_s is None or SPARE * (waits_s(count, one.capacity, mean_s) + mean_s) <= one.budget_s:
        return None
    count = behind(_ahead_in_turn(one, figures, now), figures.running, one.capacity)
    wait = SPARE * waits_s(count, one.capacity, mean_s)
    over = wait + SPARE * mean_s - one.budget_s
    return Refusal(WAIT, min(over, wait) + AGAIN_S) if count and over > 0 else None


def _room_in_s(one: Entry, figures: Figures, places: int) -> float:
    """In how many seconds so many places come free: with all that run at a time, one run's time."""
    return math.ceil(places / max(1, one.capacity)) * (_pace(one, figures).most_s or 1.0)


def _up_to_date(one: Entry, now: dt.datetime, fresh: set[tuple[str, str]]) -> Figures:
    figures, at = _figures[one.key], time.monotonic()
    if one.key not in fresh and at - figures.read_at > _may_be_old(one, figures):
        fresh.add(one.key)
        _read(one, figures, at, now)
    return figures


def _may_be_old(one: Entry, figures: Figures) -> float:
    """How old, in seconds, the figures may be for a decision on this one."""
    usual = max(LEAST_S, min(OLDEST_S, COST_SHARE * figures.cost_s))
    queue_end = None if one.queue_max is None else one.capacity + one.queue_max
    free = [most for most in (one.inflight_max, queue_end) if most is not None]
    left = min(free, default=math.inf) - figures.queued - figures.running
    if left > MANY:
        return max(RELAXED_S, usual)
    return 0.0 if 0 < left <= FEW else usual  # a refusal may be as old as is cheap


def _read(one: Entry, figures: Figures, at: float, now: dt.datetime) -> None:
    with _lock:
        figures.read_at, figures.since = at, {}
        figures.under_way = {id: kept for id, kept in figures.under_way.items() if at - kept[0] < UNDER_WAY_S}
        under_way = list(figures.under_way)
    high, normal, low, held, running, there = _count(one, now, under_way)
    with _lock:
        figures.waiting, figures.held, figures.running, figures.lanes = (high, normal, low), held, running, {}
        for task_id in there:
            figures.under_way.pop(task_id, None)
            figures.since.pop(task_id, None)
        figures.cost_s = time.monotonic() - at
        figures.tempo.seen(full=behind(figures.queued, figures.running, one.capacity) > 1, at=at)


@robust(patience=2.0)
def _count(one: Entry, now: dt.datetime, under_way: list[uuid.UUID]) -> tuple[int, int, int, int, int, list[uuid.UUID]]:
    values = {
        "namespace": one.namespace, "ability": one.ability.name, "horizon": now + HORIZON, "under_way": under_way,
        "most": (one.queue_max or 100_000) + one.capacity + FEW,
    }  # fmt: skip
    with hot_cursor() as cursor:
        row = cursor.execute(_COUNT, values, prepare=True).fetchone()
    return row or (0, 0, 0, 0, 0, [])


def _ahead_in_turn(one: Entry, figures: Figures, now: dt.datetime) -> int:
    """How many go before it where clients take turns: all of a higher priority, and of each client's as many as of its
    own."""
    lanes = figures.lanes.get(one.priority)
    if lanes is None:
        known = frozenset(figures.since)
        lanes = figures.lanes[one.priority] = Lanes(_read_lanes(one, now), known)
    own = lanes.counts.get(one.client, 0) + figures.mine_of(one.client, lanes.known)
    others = sum(min(count, own + 1) for client, count in lanes.counts.items() if client != one.client)
    return sum(figures.waiting[: one.priority]) + figures.held + own + others


@robust(patience=2.0)
def _read_lanes(one: Entry, now: dt.datetime) -> dict[str, int]:
    values = {
        "namespace": one.namespace, "ability": one.ability.name, "priority": one.priority, "horizon": now + HORIZON,
        "most": 10_000,
    }  # fmt: skip
    with hot_cursor() as cursor:
        return dict(cursor.execute(_LANES, values, prepare=True).fetchall())


def _pace(one: Entry, figures: Figures) -> Pace:
    return figures.tempo.of(one.namespace, one.ability.candidates, one.capacity)

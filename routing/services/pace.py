"""How fast an ability's tasks get done: by how long they take, and by what is really done while all slots are full."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from common.database import hot_cursor, robust
from routing.snapshot import CandidateView

EACH_S = 2.0
WINDOW_S, LEAST_WINDOW_S = 10.0, 2.0  # what is done in it is counted, where it has been full for so long
UNSEEN_S = 3.0  # whoever looked away for longer does not know whether it was full all the while
KEPT_S = 120.0  # a measured share is believed for so long after it was full for the last time
RUNS = 5  # as often as a mean run must fit into the window
COUNTED = 500  # tasks at the most: the newest 1,000 attempts are looked at
LEAST = 0.05

_PACE = """
SELECT (sum(took) FILTER (WHERE place <= 200)
    / nullif(count(DISTINCT task_id) FILTER (WHERE place <= 200), 0))::float8,
  percentile_cont(0.9) WITHIN GROUP (ORDER BY took) FILTER (WHERE place <= 200)::float8,
  count(DISTINCT task_id) FILTER (WHERE ended_at > clock_timestamp() - make_interval(secs => %(window)s))
FROM (
  SELECT a.task_id, a.ended_at, a.place, extract(epoch FROM a.ended_at - a.sent_at) AS took
  FROM unnest(%(agents)s::text[], %(capabilities)s::text[]) g(agent_id, capability) CROSS JOIN LATERAL (
    SELECT *, row_number() OVER (ORDER BY a.task_id DESC) AS place FROM routing_attempt a
    WHERE a.namespace = %(namespace)s AND a.agent_id = g.agent_id ORDER BY a.task_id DESC LIMIT 1000) a
  WHERE a.ended_at IS NOT NULL AND a.capability = g.capability
) ended"""


class Pace(NamedTuple):
    """What a task takes in seconds, None where none has ended; how many were done within the window."""

    mean_s: float | None = None  # of slots, all its attempts together
    most_s: float | None = None  # one attempt of nine in ten
    done: int = 0


@dataclass(slots=True)
class Tempo:
    """One ability's pace as this process knows it; times are monotonic seconds."""

    pace: Pace | None = None
    read_at: float = float("-inf")
    full_since: float | None = None
    seen_at: float = float("-inf")
    share: float = 1.0  # of what the slots could do that is really done; the rest goes between two runs
    shared_at: float = float("-inf")

    def seen(self, *, full: bool, at: float) -> None:
        """Note whether tasks wait although as many run, or are about to, as may."""
        if not full or self.full_since is None or at - self.seen_at > UNSEEN_S:
            self.full_since = at if full else None
        self.seen_at = at

    def of(self, namespace: str, candidates: Sequence[CandidateView], capacity: int) -> Pace:
        """The pace, read anew every two seconds."""
        at = time.monotonic()
        if self.pace is None or at - self.read_at > EACH_S:
            window_s = self.window_s(capacity, at)
            self.pace, self.read_at = _read(namespace, candidates, window_s), at
            self.measure(self.pace, window_s, capacity, at)
        return self.pace

    def window_s(self, capacity: int, at: float) -> float:
        """In how many of the last seconds it was full all the while, as far as what was done then can be counted."""
        full_s = 0.0 if self.full_since is None else at - self.full_since
        mean_s = self.pace.mean_s if self.pace else None
        countable_s = COUNTED * mean_s / capacity if mean_s and capacity else WINDOW_S
        return min(WINDOW_S, full_s, countable_s)

    def measure(self, pace: Pace, window_s: float, capacity: int, at: float) -> None:
        """Compare what was done with what the slots could do."""
        if pace.mean_s and capacity and window_s >= max(LEAST_WINDOW_S, RUNS * pace.mean_s):
            could = capacity * window_s / pace.mean_s
            self.share, self.shared_at = min(1.0, max(LEAST, pace.done / could)), at
        elif at - self.shared_at > KEPT_S:
            self.share = 1.0

    def waits_s(self, behind: int, capacity: int, mean_s: float) -> float:
        """The wait in seconds until so many have ended."""
        return behind * mean_s / (capacity * self.share)


@robust(patience=2.0)
def _read(namespace: str, candidates: Sequence[CandidateView], window_s: float) -> Pace:
    values = {
        "namespace": namespace,
        "agents": [candidate.agent.agent_id for candidate in candidates],
        "capabilities": [candidate.capability.name for candidate in candidates],
        "window": window_s,
    }
    with hot_cursor() as cursor:
        row = cursor.execute(_PACE, values, prepare=True).fetchone()
    return Pace(*row) if row else Pace()

"""How fast an ability's tasks get done: by how long they take, and by what is really done while all slots are full."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from common.database import hot_cursor, robust
from routing.snapshot import CandidateView

EACH_S = 2.0
WINDOW_S = 5.0  # what is done in it is counted, where tasks are short enough to be counted in it
UNSEEN_S = 3.0  # whoever looked away for longer does not know whether it was full all the while
KEPT_S = 120.0  # a measured share is believed for so long after it was full for the last time
RUNS = 5  # as often as a mean run must fit into the window
LEAST = 0.05

_PACE = """
SELECT (sum(took) / nullif(count(DISTINCT task_id), 0))::float8,
  percentile_cont(0.9) WITHIN GROUP (ORDER BY took)::float8,
  count(DISTINCT task_id) FILTER (WHERE ended_at > clock_timestamp() - make_interval(secs => %(window)s))
FROM (
  SELECT a.task_id, a.ended_at, extract(epoch FROM a.ended_at - a.sent_at) AS took
  FROM unnest(%(agents)s::text[], %(capabilities)s::text[]) g(agent_id, capability) CROSS JOIN LATERAL (
    SELECT * FROM routing_attempt a WHERE a.namespace = %(namespace)s AND a.agent_id = g.agent_id
    ORDER BY a.task_id DESC LIMIT 200) a
  WHERE a.ended_at IS NOT NULL AND a.capability = g.capability
) ended"""
MOST_COUNTED = 150  # in the window: of more the newest 200 attempts tell too little


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
            self.pace, self.read_at = _read(namespace, candidates), at
            self.measure(self.pace, capacity, at)
        return self.pace

    def measure(self, pace: Pace, capacity: int, at: float) -> None:
        """Compare what was done with what the slots could do, if they were full all the while."""
        is_short = pace.mean_s is not None and 0 < pace.mean_s * RUNS <= WINDOW_S
        if pace.mean_s and is_short and self.full_since is not None and at - self.full_since >= WINDOW_S:
            could = capacity * WINDOW_S / pace.mean_s
            if pace.done <= MOST_COUNTED and could:
                self.share, self.shared_at = min(1.0, max(LEAST, pace.done / could)), at
        elif at - self.shared_at > KEPT_S:
            self.share = 1.0

    def waits_s(self, behind: int, capacity: int, mean_s: float) -> float:
        """The wait in seconds until so many have ended."""
        return behind * mean_s / (capacity * self.share)


@robust(patience=2.0)
def _read(namespace: str, candidates: Sequence[CandidateView]) -> Pace:
    values = {
        "namespace": namespace,
        "agents": [candidate.agent.agent_id for candidate in candidates],
        "capabilities": [candidate.capability.name for candidate in candidates],
        "window": WINDOW_S,
    }
    with hot_cursor() as cursor:
        row = cursor.execute(_PACE, values, prepare=True).fetchone()
    return Pace(*row) if row else Pace()

"""One lease a worker, by the database's clock, covers everything that the worker holds.

A lapsed lease means a dead worker only to who was in touch with the database all the while: after an outage the living
need a moment to renew, and whoever comes back first must not take over their work.
"""

import datetime as dt
import threading
import time
import uuid

from common.clock import now
from common.database import hot_cursor, robust
from routing import queue
from routing.services.node import here

LEASE_S = 10
MARGIN_S = 2  # for a renewal that is under way
RESTART_GRACE_S = LEASE_S
STEADY_S = LEASE_S
GAP_S = 7.0  # with the 3 s between renewals and the next one's tries no lease lapses in a shorter outage

_RENEW = """
INSERT INTO routing_worker (boot_id, node, started_at, expires_at, progress_at, inflight)
VALUES (%(boot)s, %(node)s, now(), now() + %(lease)s * interval '1 second', %(progress)s, %(inflight)s)
ON CONFLICT (boot_id) DO UPDATE SET expires_at = excluded.expires_at, inflight = excluded.inflight,
  progress_at = coalesce(excluded.progress_at, routing_worker.progress_at)"""
_LEAVE = "UPDATE routing_worker SET expires_at = now(), inflight = 0 WHERE boot_id = %(boot)s"
_DEAD = """
SELECT boot_id FROM routing_worker WHERE expires_at <= now() - %(margin)s * interval '1 second'
  AND pg_postmaster_start_time() <= now() - %(grace)s * interval '1 second'"""
_FORGET = """
DELETE FROM routing_worker w WHERE expires_at < now() - interval '1 day'
  AND NOT EXISTS (SELECT FROM routing_task t WHERE t.worker = w.boot_id AND t.outcome IS NULL)
  AND NOT EXISTS (SELECT FROM routing_attempt a WHERE a.worker = w.boot_id AND a.ended_at IS NULL)"""
_GIVE_BACK = """
WITH held AS MATERIALIZED (
  SELECT id FROM routing_task WHERE worker = ANY(%(boots)s::uuid[]) AND outcome IS NULL AND NOT waiting
    AND state IN ('RECEIVED', 'RETRY_WAIT')
  ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), back AS (
  UPDATE routing_task t SET waiting = true, due_at = least(t.due_at, %(now)s),
    strikes = t.strikes + %(died)s::bool::int, seq = t.seq + %(died)s::bool::int
  FROM held WHERE t.id = held.id AND t.id = ANY (ARRAY(SELECT id FROM held))
  RETURNING t.id, t.seq, t.state, t.strikes, t.created_at
), noted AS (
  INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, node, elapsed_ms, detail)
  SELECT id, seq, %(now)s, 'WORKER_LOST', state, state, %(node)s,
    least(extract(epoch FROM %(now)s - created_at) * 1000, 2147483647), jsonb_build_object('strikes', strikes)
  FROM back WHERE %(died)s::bool
)
SELECT id FROM back"""


class Contact:
    """For how long this process has been in touch with the database without a gap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = self._last = float("-inf")

    def note(self, moment: float) -> None:
        """The database answered at this monotonic moment."""
        with self._lock:
            if moment - self._last > GAP_S:
                self._since = moment
            self._last = max(self._last, moment)

    def is_steady(self, moment: float) -> bool:
        """Whether every living worker has had the time to renew."""
        return moment - self._last <= GAP_S and moment - self._since >= STEADY_S


contact = Contact()


@robust(patience=5.0)
def renew(
    boot_id: uuid.UUID, inflight: int, progress_at: dt.datetime | None = None, *, node: str | None = None
) -> None:
    """Hold the lease for another 10 s; `progress_at` is when this worker last finished something."""
    values = {
        "boot": boot_id, "node": node or here(), "lease": LEASE_S, "progress": progress_at, "inflight": inflight,
    }  # fmt: skip
    with hot_cursor() as cursor:
        cursor.execute(_RENEW, values, prepare=True)
    contact.note(time.monotonic())


@robust(patience=5.0)
def farewell(boot_id: uuid.UUID) -> list[uuid.UUID]:
    """End the lease now and let what was claimed but not sent wait again; returns those tasks."""
    with hot_cursor() as cursor:
        cursor.execute(_LEAVE, {"boot": boot_id})
    back = give_back([boot_id], now())
    queue.nudge(back)
    return back


@robust(patience=2.0)
def dead() -> list[uuid.UUID]:
    """The workers whose lease has lapsed; none while this process cannot tell (after a start or an outage)."""
    with hot_cursor() as cursor:
        cursor.execute(_FORGET)
        lapsed = cursor.execute(_DEAD, {"margin": MARGIN_S, "grace": RESTART_GRACE_S}).fetchall()
    answered = time.monotonic()
    contact.note(answered)  # first: an answer that was long under way is itself the gap
    return [row[0] for row in lapsed] if contact.is_steady(answered) else []


@robust(patience=2.0)
def give_back(boot_ids: list[uuid.UUID], at: dt.datetime, limit: int = 500, *, died: bool = False) -> list[uuid.UUID]:
    """Let the tasks that these workers claimed and did not send wait again, at most `limit`; returns them.

    That the workers `died` over them counts one strike on each, and is an event of its journey.
    """
    values = {"boots": boot_ids, "now": at, "limit": limit, "died": died, "node": here()}
    with hot_cursor() as cursor:
        cursor.execute(_GIVE_BACK, values)
        return [row[0] for row in cursor.fetchall()]

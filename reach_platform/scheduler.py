"""Celery beat with one leader: the others follow silently and take over when the leader's lease runs out.

The lease is a row with an epoch, renewed by the tick itself, so a beat that hangs loses it; a session lock would stay.
The leader also ends overdue tasks in its own process, so that they end with every worker and Redis down; while Redis is
away it looks for instances that are not heard any more too.
"""

import logging
import queue
import threading
import time
import uuid
from typing import Any

from celery import Celery
from django.db import DatabaseError, InterfaceError, connection
from django_celery_beat.schedulers import DatabaseScheduler

from common.clock import now
from common.database import hot_cursor
from registry.services import silence
from routing.services import workers
from routing.services.node import here
from routing.services.sweep import sweep

log = logging.getLogger(__name__)

DUTY = "beat"
LEASE_S = 12
RENEW_S = 3.0
TICK_S = 1.0
SWEEP_S = 5.0

_TAKE = """
INSERT INTO routing_leader AS l (duty, holder, epoch, expires_at)
VALUES (%(duty)s, %(holder)s, 1, now() + %(seconds)s * interval '1 second')
ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
  epoch = l.epoch + (l.holder <> excluded.holder)::int
WHERE l.holder = excluded.holder OR l.expires_at < now()
RETURNING epoch"""
_RELEASE = "UPDATE routing_leader SET expires_at = now() WHERE duty = %(duty)s AND holder = %(holder)s"


class Lease:
    """This process's claim to a duty; `epoch` is None while somebody else holds it."""

    def __init__(self, duty: str, *, seconds: int = LEASE_S, renew_s: float = RENEW_S):
        self.epoch: int | None = None
        self._duty, self._seconds, self._renew_s = duty, seconds, renew_s
        self._holder = f"{here()}:{uuid.uuid4().hex[:8]}"
        self._asked_at = float("-inf")
        self._good_until = float("-inf")

    def is_held(self, moment: float) -> bool:
        """Whether the duty is ours at this monotonic moment; asks the database when it is time to renew."""
        if moment - self._asked_at >= (self._renew_s if self.epoch is not None else TICK_S):
            self._asked_at = moment
            self._renew(moment)
        return self.epoch is not None and moment < self._good_until

    def release(self) -> None:
        """Let the next one take over at once."""
        if self.epoch is not None:
            self.epoch = None
            with hot_cursor() as cursor:
                cursor.execute(_RELEASE, {"duty": self._duty, "holder": self._holder})

    def _renew(self, moment: float) -> None:
        try:
            epoch = self._take()
        except (DatabaseError, InterfaceError) as error:
            log.warning("the lease could not be renewed: %s", type(error).__name__)
            connection.close()
            return  # what was granted before is good until it runs out
        if epoch != self.epoch:
            log.info("leads as epoch %s" if epoch is not None else "follows (%s)", epoch)
        self.epoch = epoch
        if epoch is not None:
            self._good_until = moment + self._seconds

    def _take(self) -> int | None:
        with hot_cursor() as cursor:
            cursor.execute(_TAKE, {"duty": self._duty, "holder": self._holder, "seconds": self._seconds})
            row = cursor.fetchone()
            return None if row is None else int(row[0])


class Sender(threading.Thread):
    """Publishes due jobs; a Redis that hangs holds up this thread and not the tick. What does not fit is dropped."""

    def __init__(self, app: Celery, size: int = 20):
        super().__init__(name="beat-sender", daemon=True)
        self._app = app
        self._queue: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue(size)

    def send(self, job: str, **options: Any) -> None:
        try:
            self._queue.put_nowait((job, options))
        except queue.Full:
            log.warning("%s is skipped: earlier jobs are not published yet", job)

    def run(self) -> None:
        while True:
            job, options = self._queue.get()
            try:
                self._app.send_task(job, retry=False, **options)
            except Exception as problem:
                log.warning("%s could not be published: %s", job, problem)


class LeaderScheduler(DatabaseScheduler):
    """Ticks only while it leads; a database that restarts costs ticks, not the process."""

    def __init__(self, *args: Any, **kwargs: Any):
        self._lease = Lease(DUTY)
        self._swept_at = float("-inf")
        super().__init__(*args, **kwargs)
        # `close` writes what ran; the same once more at the process's end would only find the database gone.
        self._finalize.cancel()
        self.max_interval = TICK_S
        self._sender = Sender(self.app)

    def install_default_entries(self, data: Any) -> None:
        """None of Celery's own: there is no result backend to clean up."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due if this process leads; returns the seconds until the next tick."""
        moment = time.monotonic()
        try:
            if not self._lease.is_held(moment):
                return TICK_S
            self._sweep(moment)
            return min(float(super().tick(*args, **kwargs)), TICK_S)
        except (DatabaseError, InterfaceError) as error:
            log.warning("a tick is lost: %s", type(error).__name__)
            connection.close()
            # Workers' leases lapsed with the database; the living must renew before a sweep takes over their work.
            self._swept_at = moment + workers.LEASE_S
            return TICK_S

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Hand a due job to the sender; it expires when the next one is due."""
        if not self._sender.is_alive():
            self._sender.start()
        run_every = getattr(entry.schedule, "run_every", None)
        expires = {} if run_every is None else {"expires": run_every.total_seconds()}
        self._sender.send(entry.task, args=entry.args, kwargs=entry.kwargs, **{**expires, **entry.options})

    def close(self) -> None:
        super().close()
        try:
            self._lease.release()
        except (DatabaseError, InterfaceError):
            pass  # it runs out by itself

    def _sweep(self, moment: float) -> None:
        if moment - self._swept_at >= SWEEP_S:
            self._swept_at = moment
            sweep(now())
            silence.check_without_broker(now())

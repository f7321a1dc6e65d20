"""Nudges: "these tasks are due" as Celery messages, sent from a thread so that nobody ever waits for Redis.

Each message costs a worker a millisecond or two, so under load ids gather between two of them: the longer, the more the
last one carried. An idle platform publishes at once.
A nudge may be lost: the engine looks for due work each second anyway.
"""

import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from celery import current_app
from django.db import transaction

log = logging.getLogger(__name__)

LIMIT = 20_000  # ids that may wait for the publisher; the oldest are dropped beyond it
BATCH = 200
GATHER_S = 0.01  # after a message of this process, for each id that it carried
LONGEST_GATHER_S = 0.05
BREAK_S = 1.0  # after a failed publish nothing is tried for this long
EXPIRES_S = 60  # an older nudge tells nothing that the poll has not found


def publish(ids: list[str]) -> None:
    """Send one Celery message; raises whatever the broker's client raises."""
    current_app.send_task("routing.jobs.dispatch", args=[ids], queue="dispatch", expires=EXPIRES_S, retry=False)


class Nudger:
    """A bounded queue of task ids and the daemon thread that empties it."""

    def __init__(self, send: Callable[[list[str]], None] = publish):
        self._send = send
        self._ids: deque[str] = deque(maxlen=LIMIT)
        self._filled = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._next_at = float("-inf")

    def nudge(self, ids: Iterable[uuid.UUID]) -> None:
        """Never blocks, never raises."""
        self._ids.extend(map(str, ids))
        if not self._filled.is_set():
            self._filled.set()
        if self._thread is None or not self._thread.is_alive():
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="nudges", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._filled.wait()
            self._filled.clear()
            while self._ids:
                time.sleep(max(0.0, self._next_at - time.monotonic()))
                self._publish(self._take())

    def _take(self) -> list[str]:
        ids: list[str] = []
        while self._ids and len(ids) < BATCH:
            ids.append(self._ids.popleft())
        return ids

    def _publish(self, ids: list[str]) -> None:
        self._next_at = time.monotonic() + min(GATHER_S * len(ids), LONGEST_GATHER_S)
        try:
            self._send(ids)
        except Exception as problem:
            log.warning("nudges are dropped: %s", problem)
            time.sleep(BREAK_S)
            self._ids.clear()


_nudger = Nudger()


def _renew_after_fork() -> None:
    """A forked child has no publisher thread, and perhaps a lock that nobody will release."""
    global _nudger
    _nudger = Nudger()


os.register_at_fork(after_in_child=_renew_after_fork)


def nudge(ids: Iterable[uuid.UUID]) -> None:
    """Tell the workers that these tasks are due; returns at once, and drops the hint when the broker is away."""
    _nudger.nudge(ids)


def nudge_on_commit(ids: Iterable[uuid.UUID]) -> None:
    """`nudge` once the transaction that is open now has been committed; at once when none is open."""
    transaction.on_commit(partial(nudge, list(ids)))

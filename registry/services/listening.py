"""Since when heartbeats can be heard: web processes say each few seconds that they listen, all in one row."""

import logging
import os
import threading
from datetime import datetime

from django.db import DatabaseError, InterfaceError, connection

from common.clock import now as clock_now
from common.database import hot_cursor
from registry.models import Listening

log = logging.getLogger(__name__)

MARK_EVERY_S = 4.0
GAP_S = 10.0  # without a mark for so long nobody listened

_MARK = """
INSERT INTO registry_listening AS l (id, since, until) VALUES (1, %(now)s, %(now)s)
ON CONFLICT (id) DO UPDATE SET until = greatest(l.until, excluded.until),
  since = CASE WHEN l.until < excluded.until - %(gap)s * interval '1 second' THEN excluded.since ELSE l.since END"""


def mark(now: datetime) -> None:
    """Say that somebody listens."""
    with hot_cursor() as cursor:
        cursor.execute(_MARK, {"now": now, "gap": GAP_S})


def heard_for_s(now: datetime) -> float:
    """For how long somebody has listened without a gap: 0 if nobody does, endless if nobody ever said so."""
    row = Listening.objects.first()
    if row is None:
        return float("inf")
    return (now - row.since).total_seconds() if (now - row.until).total_seconds() < GAP_S else 0.0


class _Marker(threading.Thread):
    """Marks for as long as its process lives; one that cannot reach the database hears nothing that counts."""

    def __init__(self) -> None:
        super().__init__(name="listening", daemon=True)
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(MARK_EVERY_S):
            try:
                mark(clock_now())
            except (DatabaseError, InterfaceError) as error:
                log.warning("cannot say that this process listens: %s", type(error).__name__)
                connection.close()

    def stop(self) -> None:
        self._stopping.set()


_marker: _Marker | None = None
_pid = 0


def begin() -> None:
    """Have this web process say so from now on."""
    global _marker, _pid
    if _marker is None or _pid != os.getpid():
        _marker, _pid = _Marker(), os.getpid()
        _marker.start()

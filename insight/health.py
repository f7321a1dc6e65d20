"""Is this platform able to do its work: five parts, each with its reason, answered within a second whatever is dead.

A check may hang on a dead server, so each runs on a daemon thread of its own and the answer waits only so long.
"""

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connections

from common import redis
from common.partitions import WEEK

ANSWER_WITHIN_S = 0.8
FRESH_S = 0.3  # probes of several watchers share one look
PROGRESS_WITHIN_S = 60
PARTITIONS_AHEAD = dt.timedelta(days=7)
PARTITIONED = (
    "routing_task", "routing_taskbody", "routing_attempt", "routing_event", "callbacks_callback", "callbacks_delivery",
)  # fmt: skip
DATABASE_PARTS = ("database", "worker", "beat", "partitions")


@dataclass(frozen=True, slots=True)
class Part:
    """One part's verdict; `detail` says why not, or what was seen."""

    ok: bool
    detail: str


def readiness() -> tuple[bool, dict[str, Any]]:
    """(ready, {"status", "parts": {name: {"ok", "detail"}}}); takes at most a second."""
    end = time.monotonic() + ANSWER_WITHIN_S
    watches = (_DATABASE, _BROKER)
    for watch in watches:
        watch.start()
    parts: dict[str, Part] = {}
    for watch in watches:
        parts.update(watch.wait(end))
    ready = all(part.ok for part in parts.values())
    shown = {name: {"ok": part.ok, "detail": part.detail} for name, part in parts.items()}
    return ready, {"status": "ready" if ready else "not ready", "parts": shown}


class _Watch:
    """Runs one check at a time on its own thread; a check that hangs is reported and never doubled."""

    def __init__(self, names: tuple[str, ...], check: Callable[[], dict[str, Part]]) -> None:
        self._names, self._check = names, check
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._running = False
        self._parts: dict[str, Part] = {}
        self._at = float("-inf")

    def start(self) -> None:
        with self._lock:
            if self._running or time.monotonic() - self._at < FRESH_S:
                return
            self._running = True
            self._done.clear()
        threading.Thread(target=self._run, name=f"health-{self._names[0]}", daemon=True).start()

    def wait(self, end: float) -> dict[str, Part]:
        if not self._done.wait(max(0.0, end - time.monotonic())):
            return dict.fromkeys(self._names, Part(False, f"no answer within {ANSWER_WITHIN_S:g} s"))
        return self._parts

    def _run(self) -> None:
        try:
            parts = self._check()
        except Exception as problem:
            # PostgreSQL's and Redis's own words, with addresses and users, are for the log and not for whoever asks
            parts = dict.fromkeys(self._names, Part(False, f"cannot be asked ({type(problem).__name__})"))
        with self._lock:
            self._parts, self._at, self._running = parts, time.monotonic(), False
            self._done.set()


def _check_database() -> dict[str, Part]:
    connection = connections.create_connection("default")
    connection.settings_dict = {
        **connection.settings_dict,
        "OPTIONS": {
            **connection.settings_dict["OPTIONS"],
            "connect_timeout": 2,
            "options": "-c statement_timeout=2000",
        },
    }
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return {
                "database": Part(True, "answers"),
                "worker": _worker(cursor),
                "beat": _beat(cursor),
                "partitions": _partitions(cursor),
            }
    except OperationalError:
        return dict.fromkeys(DATABASE_PARTS, Part(False, "the database is away"))
    finally:
        connection.close()


def _worker(cursor: Any) -> Part:
    cursor.execute(
        "SELECT count(*), count(*) FILTER (WHERE inflight = 0 OR"
        " coalesce(progress_at, started_at) > now() - make_interval(secs => %s)) FROM routing_worker"
        " WHERE expires_at > now()",
        [PROGRESS_WITHIN_S],
    )
    alive, well = cursor.fetchone()
    if well:
        return Part(True, f"{well} of {alive} at work or idle")
    if alive:
        return Part(
            False, f"{alive} alive, none finished anything for {PROGRESS_WITHIN_S} s although work is in flight"
        )
    return Part(False, "no worker holds a lease")


def _beat(cursor: Any) -> Part:
    cursor.execute("SELECT holder, expires_at > now() FROM routing_leader WHERE duty = 'beat'")
    row = cursor.fetchone()
    if row is None:
        return Part(False, "no beat has started")
    return Part(True, "leads") if row[1] else Part(False, "the leader's lease has run out")


def _partitions(cursor: Any) -> Part:
    """Whether every partitioned table has room for the next week."""
    cursor.execute(
        "SELECT p.relname, max(substring(c.relname FROM '_p(\\d{8})$')) FROM pg_inherits i"
        " JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE p.relname = ANY(%s) AND NOT i.inhdetachpending GROUP BY 1",
        [list(PARTITIONED)],
    )
    newest = dict(cursor.fetchall())
    cursor.execute("SELECT now()")
    needed = cursor.fetchone()[0] + PARTITIONS_AHEAD
    short = [table for table in PARTITIONED if not newest.get(table) or _end(newest[table]) < needed]
    if short:
        return Part(False, f"less than 7 days ahead: {', '.join(short)}")
    return Part(True, f"until {min(_end(day) for day in newest.values()):%Y-%m-%d}")


def _end(first_day: str) -> dt.datetime:
    return dt.datetime.strptime(first_day, "%Y%m%d").replace(tzinfo=dt.UTC) + WEEK


def _check_broker() -> dict[str, Part]:
    with redis.client(socket_timeout=0.5) as client:
        client.ping()
    return {"broker": Part(True, "answers")}


_DATABASE = _Watch(DATABASE_PARTS, _check_database)
_BROKER = _Watch(("broker",), _check_broker)

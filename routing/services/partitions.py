"""The weeks of the partitioned tables: made ahead, dropped when old."""

import datetime as dt

from django.db import connection

from common import partitions
from common.database import hot_cursor
from common.ids import floor_id, time_of

TABLES = (
    "routing_task", "routing_taskbody", "routing_attempt", "routing_event", "callbacks_callback", "callbacks_delivery",
)  # fmt: skip
_CHUNK = 5000
_FORGET = """
DELETE FROM routing_idempotency WHERE (namespace, client, correlation_id) IN (
  SELECT namespace, client, correlation_id FROM routing_idempotency WHERE task_id < %(oldest)s LIMIT %(chunk)s)"""
_LIVE = "SELECT min(id::text)::uuid FROM routing_task WHERE outcome IS NULL AND id < %(oldest)s"


def keep(now: dt.datetime) -> int:
    """Attach the partitions of the weeks ahead; returns how many were made."""
    return sum(partitions.ensure(connection, table, now) for table in TABLES)


def drop_old(now: dt.datetime, days: int) -> int:
    """Drop the weeks that ended `days` ago, and their idempotency records; returns how many partitions went.

    A week in which a task is still open stays, and so do all after it.
    """
    oldest = now - dt.timedelta(days=days)
    with hot_cursor() as cursor:
        row = cursor.execute(_LIVE, {"oldest": floor_id(oldest)}).fetchone()
    if row and row[0]:
        oldest = min(oldest, partitions.week_of(time_of(row[0])))
    dropped = sum(partitions.drop_before(connection, table, oldest) for table in TABLES)
    _forget_before(partitions.week_of(oldest))
    return dropped


def _forget_before(oldest: dt.datetime) -> None:
    """In pieces, so that no transaction is long."""
    while True:
        with hot_cursor() as cursor:
            cursor.execute(_FORGET, {"oldest": floor_id(oldest), "chunk": _CHUNK})
            if cursor.rowcount < _CHUNK:
                return

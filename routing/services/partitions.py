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
_KEY = "namespace, client, correlation_id"
_PAGE = f"""
WITH page AS MATERIALIZED (
  SELECT {_KEY}, task_id FROM routing_idempotency WHERE ({_KEY}) > (%s, %s, %s) ORDER BY {_KEY} LIMIT {_CHUNK}
), gone AS (
  DELETE FROM routing_idempotency WHERE ({_KEY}) IN (SELECT {_KEY} FROM page WHERE task_id < %s)
)
SELECT {_KEY} FROM page ORDER BY {_KEY} DESC LIMIT 1"""  # noqa: S608 - made of constants
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
    """Page by page through the primary key: no transaction is long, and each row is looked at once."""
    last: tuple[str, ...] | None = ("", "", "")
    while last is not None:
        with hot_cursor() as cursor:
            last = cursor.execute(_PAGE, [*last, floor_id(oldest)]).fetchone()

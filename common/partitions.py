"""Tables range-partitioned by UUIDv7: a week a partition, attached ahead, detached when old.

Only ATTACH and DETACH CONCURRENTLY, both with a lock timeout: `CREATE … PARTITION OF` and a plain DROP wait behind
readers and stall every insert meanwhile (docs/decisions/0001-tables.md).
"""

import datetime as dt
import re
from typing import Any

from django.db import migrations
from django.db.backends.base.base import BaseDatabaseWrapper

from common.ids import floor_id

WEEK = dt.timedelta(days=7)
_SUFFIX = re.compile(r"_p(\d{8})$")


class CreatePartitionedModel(migrations.CreateModel):
    """CreateModel whose table is `PARTITION BY RANGE (partition_by)`; the column holds UUIDv7 values."""

    def __init__(self, name: str, fields: Any, partition_by: str, **kwargs: Any) -> None:
        self.partition_by = partition_by
        super().__init__(name, fields, **kwargs)

    def deconstruct(self) -> Any:
        name, args, kwargs = super().deconstruct()
        return name, args, {**kwargs, "partition_by": self.partition_by}

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        plain = schema_editor.sql_create_table
        schema_editor.sql_create_table = f"{plain} PARTITION BY RANGE ({self.partition_by})"
        try:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        finally:
            schema_editor.sql_create_table = plain

    def reduce(self, operation: Any, app_label: str) -> bool:
        return False  # never folded into a plain CreateModel by the optimiser


def week_of(at: dt.datetime) -> dt.datetime:
    """The Monday 00:00 UTC at or before `at`."""
    day = at.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - dt.timedelta(days=day.weekday())


def existing(connection: BaseDatabaseWrapper, table: str) -> list[dt.datetime]:
    """First days of the attached partitions of `table`, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = %s::regclass AND NOT i.inhdetachpending",
            [table],
        )
        names = [row[0] for row in cursor.fetchall()]
    found = [match[1] for name in names if (match := _SUFFIX.search(name))]
    return sorted(dt.datetime.strptime(day, "%Y%m%d").replace(tzinfo=dt.UTC) for day in found)


def ensure(connection: BaseDatabaseWrapper, table: str, now: dt.datetime, weeks: int = 6) -> int:
    """Attach the partitions from last week to `weeks` ahead that are missing; returns how many were made."""
    have, made = set(existing(connection, table)), 0
    for number in range(-1, weeks + 1):
        start = week_of(now) + number * WEEK
        if start not in have:
            _attach(connection, table, start)
            made += 1
    return made


def _attach(connection: BaseDatabaseWrapper, table: str, start: dt.datetime) -> None:
    part = f"{table}_p{start:%Y%m%d}"
    with connection.cursor() as cursor:
        cursor.execute(
            f'CREATE TABLE IF NOT EXISTS "{part}" (LIKE "{table}" INCLUDING DEFAULTS INCLUDING CONSTRAINTS) '
            "WITH (fillfactor = 85)"  # room on the page for the two or three updates of a row's life
        )
        cursor.execute("SET lock_timeout = '2s'")
        try:
            cursor.execute(
                f'ALTER TABLE "{table}" ATTACH PARTITION "{part}" '
                f"FOR VALUES FROM ('{floor_id(start)}') TO ('{floor_id(start + WEEK)}')"
            )
        finally:
            cursor.execute("SET lock_timeout = 0")


def drop_before(connection: BaseDatabaseWrapper, table: str, oldest: dt.datetime) -> int:
    """Detach and drop the partitions that end at or before `oldest`; returns how many. Not inside a transaction."""
    old = [start for start in existing(connection, table) if start + WEEK <= oldest]
    for start in old:
        part = f"{table}_p{start:%Y%m%d}"
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER TABLE "{table}" DETACH PARTITION "{part}" CONCURRENTLY')
            cursor.execute(f'DROP TABLE IF EXISTS "{part}"')
    return len(old)

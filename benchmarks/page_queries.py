"""What the statements of a page cost the database, however quick the machine is: blocks read, and by what plan."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

_BUFFERS = re.compile(r"(?:hit|read)=(\d+)")
_READS = ("SELECT", "WITH", "(SELECT")


@dataclass(frozen=True, slots=True)
class Query:
    """One statement: `blocks` of 8 KB that it looked at, in memory or not, and its plan as PostgreSQL tells it."""

    sql: str
    blocks: int
    ms: float
    plan: str


def queries_of(ask: Callable[[], Any]) -> list[Query]:
    """The reading statements of one request, each explained, the hungriest first."""
    with CaptureQueriesContext(connection) as captured:
        ask()
    reads = [one["sql"] for one in captured.captured_queries if one["sql"].lstrip().startswith(_READS)]
    return sorted(map(_explained, reads), key=lambda query: -query.blocks)


def _explained(sql: str) -> Query:
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + sql.replace("%", "%%"), ())
        lines = [row[0] for row in cursor.fetchall()]
    buffers = next((line for line in lines if "Buffers:" in line), "")
    took = next((line for line in reversed(lines) if line.startswith("Execution Time")), "0")
    blocks = sum(int(number) for number in _BUFFERS.findall(buffers.split("temp")[0]))
    return Query(sql, blocks, float(re.findall(r"[\d.]+", took)[0]), "\n".join(lines))

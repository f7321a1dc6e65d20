"""A callback that was claimed but not tried goes back, and no step of its schedule is used up."""

import datetime as dt
from collections.abc import Sequence

from callbacks.messages import Due
from common.arrays import arrays, unnest
from common.database import hot_cursor, robust

_COLUMNS = {"id": "uuid", "number": "int"}
_POSTPONE = f"""
WITH given AS (SELECT * FROM {unnest(_COLUMNS)}), locked AS MATERIALIZED (
  SELECT c.id FROM callbacks_callback c WHERE c.id = ANY(%(id)s::uuid[]) ORDER BY c.id FOR UPDATE
)
UPDATE callbacks_callback c SET due_at = %(at)s, attempts = c.attempts - 1, series = c.series - 1
FROM given g JOIN locked l ON l.id = g.id
WHERE c.id = g.id AND c.id = ANY(%(id)s::uuid[]) AND c.state = 'PENDING' AND c.attempts = g.number"""  # noqa: S608 - made of constants


@robust
def postpone(dues: Sequence[Due], at: dt.datetime) -> None:
    """Let these claims go; they are due again at `at`."""
    rows = [(due.id, due.number) for due in dues]
    with hot_cursor() as cursor:
        cursor.execute(_POSTPONE, {**arrays(_COLUMNS, rows), "at": at}, prepare=True)

"""Many rows in one statement: a table of arrays, one for each column, opened again by `unnest` in the database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def unnest(columns: Mapping[str, str]) -> str:
    """`unnest(…) AS g(…)` for columns of name → PostgreSQL type; each parameter is named as its column."""
    arrays = ", ".join(f"%({name})s::{kind}[]" for name, kind in columns.items())
    return f"unnest({arrays}) AS g({', '.join(columns)})"


def arrays(columns: Iterable[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """The parameters of `unnest`: for each column the list of its values, in the order of the rows."""
    return {name: [row[index] for row in rows] for index, name in enumerate(columns)}

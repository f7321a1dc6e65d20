"""Many rows in one statement: a table of arrays, one for each column, opened again by `unnest` in the database.

The arrays are written out here: psycopg writes an element at a time and gives each column a type by what is in it, so
that a statement was prepared anew for each mixture of empty and filled columns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def unnest(columns: Mapping[str, str]) -> str:
    """`unnest(…) AS g(…)` for columns of name → PostgreSQL type; each parameter is named as its column."""
    arrays = ", ".join(f"%({name})s::{kind}[]" for name, kind in columns.items())
    return f"unnest({arrays}) AS g({', '.join(columns)})"


def arrays(columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> dict[str, str]:
    """The parameters of `unnest`: for each column an array literal of its values, in the order of the rows."""
    return {
        name: _literal(_WRITERS[kind], [row[index] for row in rows])
        for index, (name, kind) in enumerate(columns.items())
    }


def _literal(write: Callable[[Any], str], values: list[Any]) -> str:
    return "{" + ",".join(["NULL" if value is None else write(value) for value in values]) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _hex(value: bytes) -> str:
    return f'"\\\\x{value.hex()}"'


_WRITERS: dict[str, Callable[[Any], str]] = {
    "text": _quoted,
    "bytea": _hex,
    "uuid": str,
    "timestamptz": lambda moment: moment.isoformat(),
    "int": str,
    "bigint": str,
    "bool": str,
}

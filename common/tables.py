"""Rows as CSV (RFC 4180) that a spreadsheet opens without running anything."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# A cell that begins with one of these is a formula to some spreadsheet; leading blanks do not change that.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def csv_lines(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[bytes]:
    """The header and then each row, as UTF-8 with CRLF; None is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for row in _with_header(columns, rows):
        writer.writerow([_cell(value) for value in row])
        yield buffer.getvalue().encode("utf-8", "replace")
        buffer.seek(0)
        buffer.truncate()


def _with_header(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[Iterable[Any]]:
    yield columns
    yield from rows


def _cell(value: Any) -> Any:
    """Text that looks like a formula gets an apostrophe before it, which spreadsheets take for "this is text"."""
    if isinstance(value, str) and value.lstrip(" \u00a0\u3000\ufeff").startswith(_FORMULA):
        return f"'{value}"
    return value

"""Columns as array literals come back from the database as they went in."""

import datetime as dt
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.arrays import arrays, unnest
from common.database import hot_cursor

pytestmark = pytest.mark.django_db

COLUMNS = {
    "words": "text", "raw": "bytea", "id": "uuid", "at": "timestamptz", "small": "int", "large": "bigint", "yes": "bool",
}  # fmt: skip
TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
VALUES = (
    TEXT | st.sampled_from(["", "NULL", '{"a": "\\"}', "\\x00", "a,b"]),
    st.binary(),
    st.uuids(),
    st.datetimes(timezones=st.just(dt.UTC)).filter(lambda moment: 1 < moment.year < 9999),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
)
ROWS = st.lists(st.tuples(*(st.none() | values for values in VALUES)), max_size=5)


def back(rows):
    with hot_cursor() as cursor:
        statement = f"SELECT g.* FROM {unnest(COLUMNS)}"  # noqa: S608 - made of constants
        return cursor.execute(statement, arrays(COLUMNS, rows), prepare=True).fetchall()


@given(ROWS)
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_come_back_as_they_went_in(rows):
    assert back(rows) == rows


def test_a_statement_is_prepared_once_whatever_its_columns_hold():
    full = ("a", b"b", uuid.uuid4(), dt.datetime.now(dt.UTC), 1, 2, True)
    empty = (None,) * len(COLUMNS)
    with hot_cursor() as cursor:
        count = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%unnest%'"
        cursor.execute("DEALLOCATE ALL")
        cursor.connection._prepared.clear()
        for rows in ([full], [empty], [full, empty], []):
            back(rows)
        assert cursor.execute(count).fetchone() == (1,)

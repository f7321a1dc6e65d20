"""The test database without a transaction around each test and without a flush after it.

What a test leaves behind due would keep the engines of all later ones busy, so it goes; what has ended may stay.
"""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

_DUE = (
    "DELETE FROM routing_attempt WHERE ended_at IS NULL",
    "DELETE FROM routing_task WHERE outcome IS NULL",
    "DELETE FROM callbacks_callback WHERE state = 'PENDING'",
)


@pytest.fixture(scope="session")
def database_made(django_db_setup: None, django_db_blocker: Any, django_db_keepdb: bool) -> Iterator[None]:
    """pytest-django makes the database only where a test carries its marker, which would flush it after each test."""
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    if connection.settings_dict["NAME"].startswith("test_"):
        yield
        return
    with django_db_blocker.unblock():
        made = setup_databases(0, interactive=False, aliases={"default"}, keepdb=django_db_keepdb)
        yield
        if not django_db_keepdb:
            teardown_databases(made, 0)


@pytest.fixture
def database(database_made: None, django_db_blocker: Any) -> Iterator[None]:
    from django.db import connections

    with django_db_blocker.unblock():
        yield
        with connections["default"].cursor() as cursor:
            for statement in _DUE:
                cursor.execute(statement)
        connections.close_all()
        gc.collect(1)  # Django's connections are cycles: those of ended threads would stay open for a while

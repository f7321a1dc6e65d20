"""The test database without a transaction around each test and without a flush after it."""

from collections.abc import Iterator
from typing import Any

import pytest


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
        connections.close_all()

"""A namespace of its own for every test, with committed data: the hot path is never tested inside a rolled-back block."""

import pytest

from tests.committed import database, database_made  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _committed(database: None) -> None:  # noqa: F811
    """Every test here reads and writes for good."""

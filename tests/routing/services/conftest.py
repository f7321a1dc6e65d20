"""A namespace of its own for every test, with committed data: the hot path is never tested inside a rolled-back block."""

from typing import Any

import pytest

from tests.committed import database, database_made  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _committed(database: None) -> None:  # noqa: F811
    """Every test here reads and writes for good."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    from tests.routing.services.world import new_world

    return new_world(monkeypatch)

"""A namespace of its own for every test, with committed data: the hot path is never tested inside a rolled-back block."""

import uuid
from typing import Any

import pytest

from tests.committed import database, database_made  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _committed(database: None) -> None:  # noqa: F811
    """Every test here reads and writes for good."""


@pytest.fixture(autouse=True)
def _own_redis(settings: Any) -> None:
    """What another test's instance of the same number did must not count here."""
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    from tests.routing.services.world import new_world

    return new_world(monkeypatch)

"""Several views, as several processes have them, over one Redis with a prefix of the test's own."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _own_redis(settings: Any) -> None:
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def process() -> Iterator[Callable[[], Any]]:
    """process() is another process's view."""
    from routing.breaker import Breakers

    views: list[Breakers] = []

    def start() -> Breakers:
        views.append(Breakers())
        return views[-1]

    yield start
    for view in views:
        view.close()

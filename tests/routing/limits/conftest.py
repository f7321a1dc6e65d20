"""A Redis prefix of its own for every test."""

import uuid
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _own_redis(settings: Any) -> None:
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"

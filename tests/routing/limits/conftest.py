"""A Redis prefix of its own for every test, and patience with a Redis that others keep busy."""

import uuid
from typing import Any

import pytest

from common import redis


@pytest.fixture(autouse=True)
def _own_redis(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    monkeypatch.setattr(redis, "_client", redis.client(socket_timeout=10))
    monkeypatch.setattr(redis, "_down_until", 0.0)

"""Agents with instances, and evidence of a test's own in a Redis that has been there for long."""

import uuid
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _own_redis(settings: Any) -> None:
    from common import redis

    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    redis.call(lambda client: client.set(redis.key("evidence-since"), 0, ex=600))


@pytest.fixture
def place(namespace: str) -> Any:
    """place(agent_id, count=1, state="ONLINE", **columns) makes instances i0, i1, … and gives their rows."""
    from common.clock import now
    from registry.models import Agent, Instance

    def make(agent_id: str, count: int = 1, *, spec: Any = None, **columns: Any) -> list[Any]:
        agent = Agent.objects.create(
            namespace_id=namespace, agent_id=agent_id, manifest={"spec": {"capabilities": [], **(spec or {})}}
        )
        at = now()
        given = {"state": "ONLINE", "state_since": at, "registered_at": at, "last_heard_at": at, **columns}
        return [Instance.objects.create(agent=agent, instance_id=f"i{n}", **given) for n in range(count)]

    return make


@pytest.fixture
def away(monkeypatch: Any) -> None:
    """Redis does not answer."""
    from common import redis

    def no_redis(work: Any) -> Any:
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", no_redis)

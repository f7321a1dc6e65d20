"""A namespace with an operator, a client `shop`, and an agent `worker` that declares `echo`; rolled back after each test."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from common.clock import now
from common.json import dumps
from tests.registry.calls import Api

MANIFEST = {
    "apiVersion": "agent-reach/v1",
    "kind": "AgentManifest",
    "metadata": {"name": "worker", "version": "1.0.0"},
    "spec": {
        "owner": "team-a",
        "tags": ["text"],
        "capabilities": [
            {
                "name": "echo",
                "description": "Says it again.",
                "inputSchema": {"n": "integer?"},
                "outputSchema": {"n": "integer?"},
            }
        ],
        "endpoints": {"invoke": "http://127.0.0.1:9/"},
    },
}


@dataclass
class Platform:
    """One namespace and those who call it."""

    namespace: str
    operator: Api
    shop: Api
    worker: Api

    def another(self, name: str = "other", **more: Any) -> Api:
        from registry.services import clients

        return Api(clients.create(self.namespace, name, **{**CLIENT, **more}).issued.key)


CLIENT: dict[str, Any] = {
    "scopes": ["tasks:write", "tasks:read", "catalog:read", "route"], "abilities": ["*"], "actor": "test", "now": now(),
}  # fmt: skip


@pytest.fixture
def platform(db: None, settings: Any) -> Platform:
    from registry.credential_cache import CACHE
    from registry.services import clients, credentials, manifests, namespaces

    CACHE.forget_all()
    settings.REACH_OUTBOUND_ALLOW = ["127.0.0.0/8"]
    name, by = f"t-{uuid.uuid4().hex[:12]}", {"actor": "test", "now": now()}
    namespaces.create(name, **by)
    manifests.put(name, "worker", dumps(MANIFEST), "application/json", strict=False, **by)
    shop = clients.create(name, "shop", **CLIENT).issued.key
    worker = credentials.for_agent(name, "worker", **by).key
    return Platform(name, Api(credentials.operator(**by).key), Api(shop), Api(worker))


@pytest.fixture
def shop(platform: Platform) -> Api:
    return platform.shop


@pytest.fixture
def submit(shop: Api) -> Callable[..., str]:
    """Hands over a task and gives its id."""

    def submitting(**fields: Any) -> str:
        answer = shop("POST", "/v1/reach", request(**fields))
        assert answer.status_code == 202, answer.content
        return answer.json()["taskId"]

    return submitting


def request(**fields: Any) -> dict[str, Any]:
    return {"target": {"ability": "echo"}, "payload": {"n": 1}, **fields}


def attempt(task_id: str) -> str:
    """Sends the task to its agent, as a worker would; gives the attempt's key."""
    import datetime as dt

    from common.ids import uuid7
    from routing.services.claim import claim
    from routing.services.dispatch import dispatch
    from routing.trip import Dispatch

    boot, at = uuid.uuid4(), now()
    [held] = claim([uuid.UUID(task_id)], boot, 1, at)
    sent = Dispatch(held, uuid7(), "worker", "default", "echo", "http", {}, at + dt.timedelta(seconds=30), at, at)
    assert dispatch([sent], boot) == {held.task_id}
    return str(sent.attempt_key)


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json"), answer.content
    document = answer.json()
    assert (document["status"], document["code"]) == (status, code), document
    assert {"type", "title", "detail", "traceId"} <= document.keys()
    return document

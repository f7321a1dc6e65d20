"""A namespace of its own for each test, an operator, and small ways to make what tests need."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from common.clock import now
from tests.registry.calls import Api

BASE = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest"}


@pytest.fixture(autouse=True)
def _surroundings(settings: Any) -> None:
    settings.REACH_OUTBOUND_ALLOW = ["127.0.0.0/8"]
    from registry.credential_cache import CACHE  # models can be imported only once Django is set up

    CACHE.forget_all()


@pytest.fixture
def namespace(db: None) -> str:
    from registry.services import namespaces

    name = f"t-{uuid.uuid4().hex[:12]}"
    namespaces.create(name, actor="test", now=now())
    return name


@pytest.fixture
def operator(db: None) -> Api:
    from registry.services import credentials

    return Api(credentials.operator(actor="test", now=now()).key)


@pytest.fixture
def agent(namespace: str) -> Api:
    """The API as agent `a1` of the namespace."""
    from registry.services import credentials

    return Api(credentials.for_agent(namespace, "a1", actor="test", now=now()).key)


@pytest.fixture
def client_with(namespace: str) -> Callable[..., Api]:
    """Makes a client with these scopes and gives the API with its key."""

    from registry.services import clients

    def make(*scopes: str, name: str = "shop") -> Api:
        return Api(clients.create(namespace, name, scopes=list(scopes), actor="test", now=now()).issued.key)

    return make


@pytest.fixture
def manifest() -> dict[str, Any]:
    """A manifest of agent `a1` without warnings."""
    capability = {
        "name": "work",
        "description": "does work",
        "inputSchema": {"text": "string"},
        "outputSchema": {},
        "requestSample": {"text": "hello"},
        "sideEffects": False,
    }
    return {**BASE, "metadata": {"name": "a1", "version": "1.0.0"}, "spec": {"capabilities": [capability]}}

"""An agent's breakers, as the registry's health document wants to hear of them."""

from collections.abc import Callable
from typing import Any

from common.clock import now
from routing import breaker
from routing.breaker import InstanceBreaker


def breakers_of(namespace: str, agent_id: str, client: str | None) -> Callable[[str], dict[str, Any]]:
    """What tells an instance's breaker by its id; with `client` no other client's."""
    circuits = breaker.view().started().open(namespace)
    found = breaker.of_agent(circuits, namespace, agent_id, now().timestamp(), client)
    return lambda instance_id: found.get(instance_id, InstanceBreaker()).document

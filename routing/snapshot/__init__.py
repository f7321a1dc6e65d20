"""What routing knows of a namespace at one moment, in memory and never changed: abilities, agents, instances."""

from routing.snapshot.cache import at_least, current, forget, known_version
from routing.snapshot.model import (
    Ability,
    AgentView,
    CandidateView,
    CapabilityView,
    InstanceView,
    RouteView,
    Snapshot,
)

__all__ = [
    "Ability",
    "AgentView",
    "CandidateView",
    "CapabilityView",
    "InstanceView",
    "RouteView",
    "Snapshot",
    "at_least",
    "current",
    "forget",
    "known_version",
]

"""What routing knows of a namespace at one moment, in memory and never changed but for scores: abilities, agents,
instances."""

from routing.snapshot.cache import at_least, current, forget, known_version
from routing.snapshot.model import (
    Ability,
    AgentView,
    CandidateView,
    CapabilityView,
    InstanceView,
    Price,
    RouteView,
    Snapshot,
    Vitals,
)

__all__ = [
    "Ability",
    "AgentView",
    "CandidateView",
    "CapabilityView",
    "InstanceView",
    "Price",
    "RouteView",
    "Snapshot",
    "Vitals",
    "at_least",
    "current",
    "forget",
    "known_version",
]

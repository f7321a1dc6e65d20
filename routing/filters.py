"""Who may take a task: each filter names why an instance may not, or says nothing.

A filter is one function and one line in FILTERS. The first reason found is the one that the journey shows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor

from registry.states import ROUTABLE
from routing.ask import MAX_HOPS, Ask, Load
from routing.channel_choice import pulls
from routing.snapshot.model import CandidateView, InstanceView, RouteView
from routing.states import TaskError

INSTANCE_SHARE = 0.8  # of its declared concurrency that an instance is given (limits.instanceShare)
UNDECLARED = 500  # calls to an instance that declares no limit: one that hangs must not take all of a worker's room

NOT_MEANT = frozenset({"NOT_PINNED", "TAGS", "REQUIRES", "VERSION", "PAYLOAD"})  # the task is not for this instance
LASTING: frozenset[str] = frozenset(
    {TaskError.LOOP_DETECTED, TaskError.BUDGET_BELOW_SLA}
)  # waiting only makes it worse


@dataclass(frozen=True, slots=True)
class Seen:
    """One instance under examination."""

    candidate: CandidateView
    instance: InstanceView
    route: RouteView
    inflight: int


def pin(ask: Ask, seen: Seen) -> str | None:
    return "NOT_PINNED" if ask.agent_id and seen.candidate.agent.agent_id != ask.agent_id else None


def tags(ask: Ask, seen: Seen) -> str | None:
    return None if set(ask.tags) <= set(seen.candidate.agent.tags) else "TAGS"


def requires(ask: Ask, seen: Seen) -> str | None:
    labels = seen.instance.labels
    return None if all(labels.get(name) == value for name, value in ask.requires.items()) else "REQUIRES"


def version(_ask: Ask, seen: Seen) -> str | None:
    wanted = seen.candidate.version
    return "VERSION" if wanted and (seen.instance.version or seen.candidate.agent.version) != wanted else None


def payload(ask: Ask, seen: Seen) -> str | None:
    return None if ask.fits is None or ask.fits(seen.candidate.capability) else "PAYLOAD"


def share(_ask: Ask, seen: Seen) -> str | None:
    return "WEIGHT_ZERO" if seen.candidate.weight == 0 else None


def loop(ask: Ask, seen: Seen) -> str | None:
    been_there = ask.call_path.count(seen.candidate.agent.agent_id)
    return TaskError.LOOP_DETECTED if been_there > ask.loops_allowed or len(ask.call_path) >= MAX_HOPS else None


def budget(ask: Ask, seen: Seen) -> str | None:
    sla = seen.candidate.capability.latency_sla_ms
    return TaskError.BUDGET_BELOW_SLA if sla is not None and ask.left_ms < sla else None


def maintenance(_ask: Ask, seen: Seen) -> str | None:
    return "MAINTENANCE" if seen.candidate.agent.maintenance else None


def draining(_ask: Ask, seen: Seen) -> str | None:
    return (
        "DRAINING" if seen.instance.draining or not seen.instance.weight_percent or not seen.instance.weight else None
    )


def state(_ask: Ask, seen: Seen) -> str | None:
    return None if seen.instance.state in ROUTABLE else str(seen.instance.state)


def address(_ask: Ask, seen: Seen) -> str | None:
    return None if seen.instance.invoke_url or pulls(seen.candidate.agent) else "NO_ADDRESS"


def concurrency(_ask: Ask, seen: Seen) -> str | None:
    return "BUSY" if seen.inflight >= most_inflight(seen) else None


def most_inflight(seen: Seen) -> int:
    """How many calls the instance is given at a time."""
    most = seen.instance.max_concurrency
    if most is None:
        return UNDECLARED
    share = float(seen.route.limits.get("instanceShare", INSTANCE_SHARE))
    return max(1, floor(share * most))


Filter = Callable[[Ask, Seen], str | None]

FILTERS: tuple[Filter, ...] = (
    pin,
    tags,
    requires,
    version,
    payload,
    share,
    loop,
    budget,
    maintenance,
    draining,
    state,
    address,
    concurrency,
)


def rejection(ask: Ask, seen: Seen) -> str | None:
    """Why this instance may not take the task; None if it may."""
    for check in FILTERS:
        if reason := check(ask, seen):
            return str(reason)
    return None


def inflight(ask: Ask, loads: Load, instance: InstanceView) -> int:
    return loads.inflight((ask.namespace, *instance.key))

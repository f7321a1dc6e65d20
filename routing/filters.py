"""Who may take a task: each filter names why an instance may not, or says nothing.

A filter is one function and one line in one of three tables, by what it looks at. FIXED: only the snapshot, so that it
is asked once for each. OF_CANDIDATE: the task and a candidate. FILTERS: the task and an instance; a line of these two
may say which tasks it concerns, others are not asked about it. The first reason found is the one that the journey
shows; that an instance is full is found last, by the choice itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import TYPE_CHECKING, Generic, TypeVar

from registry.states import ROUTABLE
from routing.ask import MAX_HOPS, SCHEMA_VERSION, Ask
from routing.channel_choice import is_reachable
from routing.loads import Key
from routing.snapshot.model import CandidateView, InstanceView, RouteView
from routing.states import TaskError

if TYPE_CHECKING:
    from routing.layout import Layout

INSTANCE_SHARE = 0.8  # of its declared concurrency that an instance is given (limits.instanceShare)
UNDECLARED = 500  # of one process to an instance that declares no limit: one that hangs must not take all of its room
BUSY = "BUSY"

NOT_MEANT = frozenset(
    {"NOT_PINNED", "TAGS", "REQUIRES", "VERSION", "PAYLOAD", "SCHEMA_VERSION", "NEEDS", "NETWORK"}
)  # the task is not for this instance
LASTING: frozenset[str] = frozenset(
    {TaskError.LOOP_DETECTED, TaskError.BUDGET_BELOW_SLA}
)  # waiting only makes it worse


@dataclass(frozen=True, slots=True)
class Seen:
    """One instance behind one candidate of an ability, with what the snapshot alone says of it."""

    candidate: CandidateView
    instance: InstanceView
    route: RouteView
    namespace: str
    number: int = 0  # its place among the instances of the ability
    group: int = 0  # its candidate's place
    key: Key = field(init=False)
    weight: float = field(init=False)  # the instance's own, as it is now: 1.0 is that of an ordinary instance
    most: int = field(init=False)  # calls that it is given at a time, by all processes together …
    is_shared: bool = field(init=False)  # … or by each, where it declares no limit
    unfit: str | None = field(init=False)  # why it may not take any task just now

    def __post_init__(self) -> None:
        given = object.__setattr__  # a frozen value, complete from here on
        given(self, "key", (self.namespace, *self.instance.key))
        given(self, "weight", self.instance.weight * self.instance.weight_percent / 10_000)
        given(self, "most", most_inflight(self))
        given(self, "is_shared", self.instance.max_concurrency is not None)
        given(self, "unfit", first_reason(check(self) for check in FIXED))


def pin(ask: Ask, candidate: CandidateView) -> str | None:
    return "NOT_PINNED" if candidate.agent.agent_id != ask.agent_id else None


def tags(ask: Ask, candidate: CandidateView) -> str | None:
    return None if set(ask.tags) <= set(candidate.agent.tags) else "TAGS"


def payload(ask: Ask, candidate: CandidateView) -> str | None:
    return None if ask.fits is None or ask.fits(candidate.capability) else "PAYLOAD"


def needs(ask: Ask, candidate: CandidateView) -> str | None:
    """Metadata that the agent cannot do without."""
    return None if ask.context is None or candidate.agent.needs <= ask.context else "NEEDS"


def loop(ask: Ask, candidate: CandidateView) -> str | None:
    been_there = ask.call_path.count(candidate.agent.agent_id)
    return TaskError.LOOP_DETECTED if been_there > ask.loops_allowed or len(ask.call_path) >= MAX_HOPS else None


def budget(ask: Ask, candidate: CandidateView) -> str | None:
    sla = candidate.capability.latency_sla_ms
    return TaskError.BUDGET_BELOW_SLA if sla is not None and ask.left_ms < sla else None


def schema_version(seen: Seen) -> str | None:
    """Whether the agent accepts the only message schema that there is."""
    accepted = seen.candidate.agent.schema_versions
    return "SCHEMA_VERSION" if accepted and SCHEMA_VERSION not in accepted else None


def version(seen: Seen) -> str | None:
    wanted = seen.candidate.version
    return "VERSION" if wanted and (seen.instance.version or seen.candidate.agent.version) != wanted else None


def share(seen: Seen) -> str | None:
    return "WEIGHT_ZERO" if seen.candidate.weight == 0 else None


def maintenance(seen: Seen) -> str | None:
    return "MAINTENANCE" if seen.candidate.agent.maintenance else None


def draining(seen: Seen) -> str | None:
    return "DRAINING" if seen.instance.draining or not seen.weight else None


def state(seen: Seen) -> str | None:
    return None if seen.instance.state in ROUTABLE else str(seen.instance.state)


def address(seen: Seen) -> str | None:
    return None if is_reachable(seen.candidate.agent, seen.instance) else "NO_ADDRESS"


def requires(ask: Ask, seen: Seen) -> str | None:
    labels = seen.instance.labels
    return None if all(labels.get(name) == value for name, value in ask.requires.items()) else "REQUIRES"


def zone(ask: Ask, seen: Seen) -> str | None:
    """A worker that serves certain zones sends into no other."""
    return "ZONE" if seen.instance.zone and seen.instance.zone not in ask.zones else None


def network(ask: Ask, seen: Seen) -> str | None:
    """A caller that calls by itself needs an address in its own network, where addresses by network are declared."""
    return "NETWORK" if seen.instance.networks and ask.network not in seen.instance.networks else None


def breaker(ask: Ask, seen: Seen) -> str | None:
    return TaskError.BREAKER_OPEN if seen.instance.key in ask.barred else None


def direct(ask: Ask, seen: Seen) -> str | None:
    """Who calls by itself needs an address; a worker can also be fetched from."""
    return None if seen.instance.address_in(ask.network) else "NO_ADDRESS"


def most_inflight(seen: Seen) -> int:
    """How many calls the instance is given at a time."""
    most = shared_limit(seen.instance, seen.route)
    return UNDECLARED if most is None else most


def shared_limit(instance: InstanceView, route: RouteView) -> int | None:
    """How many attempts the instance is given at a time by all processes; None where it declares no limit."""
    if instance.max_concurrency is None:
        return None
    share = float(route.limits.get("instanceShare", INSTANCE_SHARE))
    return max(1, floor(share * instance.max_concurrency))


Looked = TypeVar("Looked", CandidateView, Seen)


@dataclass(frozen=True, slots=True)
class Filter(Generic[Looked]):
    """A check, and whether it can say anything at all for this task and this ability's layout."""

    check: Callable[[Ask, Looked], str | None]
    concerns: Callable[[Ask, "Layout"], object] = lambda _ask, _layout: True


FIXED: tuple[Callable[[Seen], str | None], ...] = (
    version,
    schema_version,
    share,
    maintenance,
    draining,
    state,
    address,
)
OF_CANDIDATE: tuple[Filter[CandidateView], ...] = (
    Filter(pin, lambda ask, _: ask.agent_id),
    Filter(tags, lambda ask, _: ask.tags),
    Filter(needs, lambda ask, _: ask.context is not None),
    Filter(payload, lambda ask, _: ask.fits),
    Filter(loop, lambda ask, layout: len(ask.call_path) >= MAX_HOPS or not layout.agents.isdisjoint(ask.call_path)),
    Filter(budget, lambda ask, layout: ask.left_ms < layout.slowest_sla_ms),
)
FILTERS: tuple[Filter[Seen], ...] = (
    Filter(requires, lambda ask, _: ask.requires),
    Filter(zone, lambda ask, _: ask.zones),
    Filter(network, lambda ask, _: ask.network),
    Filter(breaker, lambda ask, _: ask.barred),
    Filter(direct, lambda ask, _: ask.direct),
)


def first_reason(reasons: Iterable[str | None]) -> str | None:
    """The first that is one, as plain text."""
    return next((str(reason) for reason in reasons if reason), None)


def rejections(ask: Ask, layout: "Layout") -> list[str | None]:
    """For each instance of the layout why it may not take this task, its load aside; None if it may."""
    found = list(layout.unfit)
    if of_candidate := [one.check for one in OF_CANDIDATE if one.concerns(ask, layout)]:
        groups = [_reason(of_candidate, ask, candidate) for candidate in layout.ability.candidates]
        found = [groups[one.group] or reason for one, reason in zip(layout.seen, found, strict=True)]
    if of_instance := [one.check for one in FILTERS if one.concerns(ask, layout)]:
        for one in layout.seen:
            if found[one.number] is None:
                found[one.number] = _reason(of_instance, ask, one)
    return found


def _reason(checks: Sequence[Callable[[Ask, Looked], str | None]], ask: Ask, what: Looked) -> str | None:
    return first_reason(check(ask, what) for check in checks)

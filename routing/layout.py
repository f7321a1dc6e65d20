"""An ability's instances laid out for choosing: worked out once a snapshot, by whoever chooses first."""

import datetime as dt
from dataclasses import dataclass, field

from registry.states import InstanceState
from routing.filters import Seen
from routing.loads import Key
from routing.ring import Ring, ring_of
from routing.snapshot.model import Ability, CandidateView

DEGRADED_SHARE = 0.3  # of the picks that a degraded instance takes part in
SLOW_START_S = 30.0  # for so long one that came online rises to its full share …
SLOW_START_FROM = 0.1  # … from this


@dataclass(slots=True)
class Layout:
    """The instances in the order of the candidates; `number` and `group` of each are its places in both."""

    ability: Ability
    seen: tuple[Seen, ...]
    keys: tuple[Key, ...]  # of each
    unfit: tuple[str | None, ...]  # why each may not take any task just now
    agents: frozenset[str]
    weighted: tuple[CandidateView, ...]  # candidates with a traffic share
    slowest_sla_ms: int  # the longest latency that any candidate agreed to
    is_plain: bool  # nobody is new or degraded
    settled_at: dt.datetime | None  # when the last one that came online has its full share
    _ring: Ring | None = field(default=None)

    @property
    def ring(self) -> Ring:
        """All instances on a circle; made when it is first asked for, and again only when instances come or go."""
        if self._ring is None:
            # By the registered weight: a heartbeat that lowers its own for a while must not move sessions.
            members = [("\0".join(one.instance.key), one.instance.weight / 100) for one in self.seen]
            self._ring = ring_of(tuple(members))
        return self._ring

    def is_settled(self, now: dt.datetime | None) -> bool:
        """Whether every instance takes its full share."""
        return self.is_plain and (now is None or self.settled_at is None or now >= self.settled_at)


def layout_of(ability: Ability, namespace: str) -> Layout:
    """The ability's layout, kept with it."""
    found: Layout | None = ability.kept.get("layout")
    if found is None:
        found = ability.kept["layout"] = _lay_out(ability, namespace)
    return found


def share_of(one: Seen, now: dt.datetime | None) -> float:
    """The share of picks that an instance takes part in: less while it is degraded, or online only since a moment."""
    if one.instance.state == InstanceState.DEGRADED:
        return DEGRADED_SHARE
    if one.instance.state_since is None or now is None:
        return 1.0
    risen = (now - one.instance.state_since).total_seconds() / SLOW_START_S
    return min(1.0, SLOW_START_FROM + (1.0 - SLOW_START_FROM) * max(0.0, risen))


def _lay_out(ability: Ability, namespace: str) -> Layout:
    seen: list[Seen] = []
    for group, candidate in enumerate(ability.candidates):
        for instance in candidate.agent.instances:
            seen.append(Seen(candidate, instance, ability.route, namespace, len(seen), group))
    began = [one.instance.state_since for one in seen if one.instance.state_since is not None]
    return Layout(
        ability=ability,
        seen=tuple(seen),
        keys=tuple(one.key for one in seen),
        unfit=tuple(one.unfit for one in seen),
        agents=frozenset(one.agent.agent_id for one in ability.candidates),
        slowest_sla_ms=max((one.capability.latency_sla_ms or 0 for one in ability.candidates), default=0),
        weighted=tuple(one for one in ability.candidates if one.weight),
        is_plain=all(one.instance.state not in (InstanceState.NEW, InstanceState.DEGRADED) for one in seen),
        settled_at=max(began) + dt.timedelta(seconds=SLOW_START_S) if began else None,
    )

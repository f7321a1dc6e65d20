"""Which instance takes a task, and why not the others: a value, computed from a snapshot.

filters → traffic shares (a candidate by weight) → the preferred region → the session's own instance, or state shares
(NEW, DEGRADED, just back) and the strategy's pick.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from registry.states import InstanceState
from routing.ask import Ask, Load
from routing.filters import BUSY, LASTING, NOT_MEANT, Seen, rejections
from routing.layout import Layout, layout_of, share_of
from routing.limits.slots import ABILITY_BUSY
from routing.ring import part_hash
from routing.snapshot.model import Ability, CandidateView, InstanceView, RouteView
from routing.states import TaskError
from routing.strategies import REGISTRY, Pool
from routing.strategies.base import Option, Rand

NEW_SHARE = 0.1  # of the traffic that new instances take while there are proven ones
SHOWN = 50  # instances named in a decision
KEYED = "consistent_hash"  # the strategy that leaves nothing to chance


@dataclass(frozen=True, slots=True)
class Considered:
    """What was looked at, kept as it was found and written out only for those who want to read it."""

    layout: Layout | None
    rejected: list[str | None]  # by the instances' numbers in the layout
    running: list[int]
    chosen: Seen | None = None

    def decision(self) -> dict[str, Any]:
        """The chosen one first, then those that could not; further ones beyond a screenful are only counted."""
        if self.layout is None:
            return {"strategy": "", "chosen": None, "candidates": []}
        rejected, chosen = self.rejected, self.chosen
        ordered = sorted(self.layout.seen, key=lambda one: (one is not chosen, rejected[one.number] is None))
        decision: dict[str, Any] = {
            "strategy": self.layout.ability.route.strategy,
            "chosen": {"agentId": chosen.instance.agent_id, "instanceId": chosen.instance.instance_id}
            if chosen
            else None,
            "candidates": [self._shown(one) for one in ordered[:SHOWN]],
        }
        if len(ordered) > SHOWN:
            decision["omitted"] = len(ordered) - SHOWN
        return decision

    def _shown(self, one: Seen) -> dict[str, Any]:
        return {
            "agentId": one.instance.agent_id,
            "instanceId": one.instance.instance_id,
            "score": one.instance.vitals.score_by(one.route.score_weights),
            "inflight": self.running[one.number],
            "rejected": self.rejected[one.number],
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """The instance that takes the task."""

    seen: Seen
    considered: Considered

    @property
    def candidate(self) -> CandidateView:
        return self.seen.candidate

    @property
    def instance(self) -> InstanceView:
        return self.seen.instance

    @property
    def route(self) -> RouteView:
        return self.seen.route

    @property
    def decision(self) -> dict[str, Any]:
        """What the journey shows."""
        return self.considered.decision()


@dataclass(frozen=True, slots=True)
class NoChoice:
    """Nobody can: NO_INSTANCE and BREAKER_OPEN may pass, LOOP_DETECTED and BUDGET_BELOW_SLA will not.

    `busy` when it is only a slot that is missing; `why` names the reasons of the instances that the task is meant for,
    or, where it is meant for none, why not.
    """

    considered: Considered
    reason: TaskError
    busy: bool = False
    why: str = TaskError.NO_INSTANCE.value

    @property
    def decision(self) -> dict[str, Any]:
        """What the journey shows."""
        return self.considered.decision()


def choose(ability: Ability | None, ask: Ask, loads: Load, rand: Rand) -> Choice | NoChoice:
    """Choose an instance of the ability; `rand` gives numbers in [0, 1). An unknown ability has nobody."""
    if ability is None:
        return NoChoice(Considered(None, [], []), TaskError.NO_INSTANCE)
    layout = layout_of(ability, ask.namespace)
    rejected, running, options = _examined(layout, ask, loads)
    if not options:
        return _nobody(Considered(layout, rejected, running))
    if ability.route.strategy == KEYED:
        rand = _keyed(ask)
    options = _kept_local(_by_weight(layout, options, ask, rand), ask, rejected)
    chosen = _of_session(layout, options, ask) or _by_strategy(layout, options, ask, rand)
    return Choice(chosen, Considered(layout, rejected, running, chosen))


def ability_busy(ability: Ability, namespace: str, loads: Load) -> NoChoice | None:
    """The answer where the ability itself has as many attempts in flight as it is given; None where it has not."""
    most = ability.route.limits.get("maxInflight")
    if most is None or loads.inflight((namespace, ability.name)) < most:
        return None
    layout = layout_of(ability, namespace)
    running = loads.counts(layout.keys)
    considered = Considered(layout, [ABILITY_BUSY] * len(running), running)
    return NoChoice(considered, TaskError.NO_INSTANCE, busy=True, why=ABILITY_BUSY)


def _examined(layout: Layout, ask: Ask, loads: Load) -> tuple[list[str | None], list[int], list[Option]]:
    """Why each instance may not take the task, how busy each is, and those that may."""
    running = loads.counts(layout.keys)
    rejected = rejections(ask, layout)
    options = [
        (calls, one)
        for one, calls, reason in zip(layout.seen, running, rejected, strict=True)
        if reason is None and (calls < one.most or (not one.is_shared and loads.own(one.key) < one.most))
    ]
    if len(options) < rejected.count(None):
        free = {one.number for _, one in options}
        rejected = [BUSY if why is None and n not in free else why for n, why in enumerate(rejected)]
    return rejected, running, options


def _by_weight(layout: Layout, options: list[Option], ask: Ask, rand: Rand) -> list[Option]:
    """The options of the candidate that the draw falls on; all of them where nobody has a weight.

    Only who is available takes part, so that the share of one that is not goes to the others by their weights.
    """
    if not layout.weighted:
        return options
    groups = {one.group: one.candidate for _, one in options if one.candidate.weight}
    if not groups:
        return options
    drawn = _draw(groups, rand) if ask.session_id is None else _draw_for_session(groups, ask.session_id, ask.ability)
    return [option for option in options if option[1].group == drawn]


def _draw(groups: dict[int, CandidateView], rand: Rand) -> int:
    """The candidate in whose share a random point lies."""
    point = rand() * sum(one.weight or 0 for one in groups.values())
    for group, candidate in groups.items():
        point -= candidate.weight or 0
        if point < 0:
            return group
    return group


def _draw_for_session(groups: dict[int, CandidateView], session: str, ability: str) -> int:
    """The session's own candidate: each is drawn in proportion to its weight (weighted rendezvous hashing), and a
    session moves only when its own is gone, or gives up some of its share."""

    def distance(group: int) -> float:
        one = groups[group]
        at = part_hash(session, ability, one.agent.agent_id, one.capability.name, one.version or "")
        return -math.log(at or 5e-324) / (one.weight or 0)

    return min(groups, key=distance)


def _kept_local(options: list[Option], ask: Ask, rejected: list[str | None]) -> list[Option]:
    """Where the caller prefers a region and it has somebody, the others are out."""
    if not ask.prefer_local:
        return options
    near = [option for option in options if option[1].instance.region == ask.prefer_local]
    if not near:
        return options
    for _, one in options:
        if one.instance.region != ask.prefer_local:
            rejected[one.number] = "REGION"
    return near


def _of_session(layout: Layout, options: Sequence[Option], ask: Ask) -> Seen | None:
    """The session's own instance: it stays while it is there, whoever else comes or goes. Not one that is still to
    prove itself, if another is there."""
    if ask.session_id is None:
        return None
    proven = [option for option in options if option[1].instance.state != InstanceState.NEW]
    return Pool(options, layout, ask, _never).on_ring(proven or options)


def _by_strategy(layout: Layout, options: list[Option], ask: Ask, rand: Rand) -> Seen:
    if not layout.is_settled(ask.now):
        options = _by_state(options, ask, rand)
    return REGISTRY[layout.ability.route.strategy].pick(Pool(options, layout, ask, rand))


def _by_state(options: list[Option], ask: Ask, rand: Rand) -> list[Option]:
    """New instances as a group take their small share; one that is degraded, or online only since a moment, takes part
    in a part of the picks."""
    new = [option for option in options if option[1].instance.state == InstanceState.NEW]
    proven = [option for option in options if option[1].instance.state != InstanceState.NEW] if new else options
    if new and (not proven or rand() < NEW_SHARE):
        return new
    shares = [(option, share_of(option[1], ask.now)) for option in proven]
    return [option for option, share in shares if share >= 1.0 or rand() < share] or proven


def _keyed(ask: Ask) -> Rand:
    """Numbers that are the same for the same session, else task, in every process."""
    key, count = ask.session_id or str(ask.task_id), itertools.count()
    return lambda: part_hash(key, str(next(count)))


def _never() -> float:
    raise AssertionError("a session's instance is not left to chance")


def _nobody(considered: Considered) -> NoChoice:
    found = {reason or "" for reason in considered.rejected}
    reasons = sorted(found - NOT_MEANT)
    if not reasons:
        return NoChoice(considered, TaskError.NO_INSTANCE, why=", ".join(sorted(found)) or TaskError.NO_INSTANCE)
    lasting = LASTING.issuperset(reasons)
    by_breaker = reasons == [TaskError.BREAKER_OPEN]
    reason = TaskError(reasons[0]) if lasting or by_breaker else TaskError.NO_INSTANCE
    return NoChoice(considered, reason, BUSY in reasons, ", ".join(reasons))

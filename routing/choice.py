"""Which instance takes a task, and why not the others: a value, computed from a snapshot.

filters → traffic shares (a candidate by weight) → state shares (NEW, DEGRADED) → the session's own instance or the
strategy's pick.
"""

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from registry.states import InstanceState
from routing.ask import Ask, Load
from routing.filters import LASTING, NOT_MEANT, Seen, inflight, rejection
from routing.snapshot.model import Ability, CandidateView, InstanceView, RouteView
from routing.states import TaskError
from routing.strategies import REGISTRY
from routing.strategies.base import Rand

NEW_SHARE = 0.1  # of the traffic that new instances take while there are proven ones
DEGRADED_WEIGHT = 0.3
SLOW_START_S = 30.0  # for so long one that came online rises to its full share …
SLOW_START_FROM = 0.1  # … from this
SHOWN = 50  # instances named in a decision


@dataclass(frozen=True, slots=True)
class Choice:
    """The instance that takes the task; `decision` is what the journey shows."""

    candidate: CandidateView
    instance: InstanceView
    decision: dict[str, Any]
    route: RouteView


@dataclass(frozen=True, slots=True)
class NoChoice:
    """Nobody can: NO_INSTANCE may pass, LOOP_DETECTED and BUDGET_BELOW_SLA will not.

    `busy` when it is only a slot that is missing; `why` names the reasons of the instances that the task is meant for.
    """

    decision: dict[str, Any]
    reason: TaskError
    busy: bool = False
    why: str = TaskError.NO_INSTANCE.value


@dataclass(slots=True)
class _Place:
    seen: Seen
    rejected: str | None


def choose(ability: Ability | None, ask: Ask, loads: Load, rand: Rand) -> Choice | NoChoice:
    """Choose an instance of the ability; `rand` gives numbers in [0, 1). An unknown ability has nobody."""
    if ability is None:
        return NoChoice(_decision("", [], None), TaskError.NO_INSTANCE)
    places = [
        _examine(ability, candidate, one, ask, loads)
        for candidate in ability.candidates
        for one in candidate.agent.instances
    ]
    _keep_local(places, ask)
    usable = [place.seen for place in places if place.rejected is None]
    strategy = ability.route.strategy
    if not usable:
        return _nobody(_decision(strategy, places, None), places)
    drawn = _by_weight(ability, usable, ask, rand)
    instance = _of_session(drawn, ask) or REGISTRY[strategy].pick(_by_state(drawn, ask.now, rand), ask, loads, rand)
    candidate = next(seen.candidate for seen in drawn if seen.instance is instance)
    return Choice(candidate, instance, _decision(strategy, places, instance), ability.route)


def _examine(ability: Ability, candidate: CandidateView, instance: InstanceView, ask: Ask, loads: Load) -> _Place:
    seen = Seen(candidate, instance, ability.route, inflight(ask, loads, instance))
    return _Place(seen, rejection(ask, seen))


def _keep_local(places: list[_Place], ask: Ask) -> None:
    """Where the caller prefers a region and it has somebody, the others are out."""
    if not ask.prefer_local:
        return
    usable = [place for place in places if place.rejected is None]
    if any(place.seen.instance.region == ask.prefer_local for place in usable):
        for place in usable:
            if place.seen.instance.region != ask.prefer_local:
                place.rejected = "REGION"


def _by_weight(ability: Ability, usable: list[Seen], ask: Ask, rand: Rand) -> list[Seen]:
    """The instances of the candidate that the draw falls on; all of them where nobody has a weight."""
    weighted = [c for c in ability.candidates if c.weight]
    if not weighted:
        return usable
    at = rand() if ask.session_id is None else _hash(ask.session_id, ask.ability)
    drawn = _draw(weighted, at)
    available = {id(seen.candidate) for seen in usable}
    if id(drawn) not in available:  # its share goes to the others by their weights
        remaining = [c for c in weighted if id(c) in available]
        if not remaining:
            return usable
        drawn = _draw(remaining, rand() if ask.session_id is None else _hash(ask.session_id, ask.ability, "again"))
    return [seen for seen in usable if seen.candidate is drawn]


def _draw(candidates: Sequence[CandidateView], at: float) -> CandidateView:
    """The candidate in whose share `at` (0 to 1) lies."""
    point = at * sum(c.weight or 0 for c in candidates)
    for candidate in candidates:
        point -= candidate.weight or 0
        if point < 0:
            return candidate
    return candidates[-1]


def _by_state(drawn: list[Seen], now: dt.datetime | None, rand: Rand) -> list[InstanceView]:
    """New instances as a group take their small share; one that is degraded, or online only since a moment, takes part
    in a part of the picks."""
    new, proven = _new_and_proven(drawn)
    if new and (not proven or rand() < NEW_SHARE):
        return new
    shares = [(one, _share(one, now)) for one in proven]
    return [one for one, share in shares if share >= 1.0 or rand() < share] or proven


def _share(one: InstanceView, now: dt.datetime | None) -> float:
    """The share of picks that an instance takes part in."""
    if one.state == InstanceState.DEGRADED:
        return DEGRADED_WEIGHT
    if one.state_since is None or now is None:
        return 1.0
    risen = (now - one.state_since).total_seconds() / SLOW_START_S
    return SLOW_START_FROM + (1.0 - SLOW_START_FROM) * max(0.0, risen)


def _new_and_proven(drawn: list[Seen]) -> tuple[list[InstanceView], list[InstanceView]]:
    instances = [seen.instance for seen in drawn]
    new = [one for one in instances if one.state == InstanceState.NEW]
    return new, [one for one in instances if one.state != InstanceState.NEW]


def _of_session(drawn: list[Seen], ask: Ask) -> InstanceView | None:
    """The session's own instance: by highest hash, so that it stays while it is there, whoever else comes or goes."""
    session = ask.session_id
    if session is None:
        return None
    new, proven = _new_and_proven(drawn)
    return max(proven or new, key=lambda one: _hash(session, *one.key))


def _hash(*parts: str) -> float:
    """A number in [0, 1) that stays the same for the same parts in every process."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big") / (1 << 56)


def _nobody(decision: dict[str, Any], places: list[_Place]) -> NoChoice:
    reasons = sorted({place.rejected or "" for place in places} - NOT_MEANT)
    if not reasons:
        return NoChoice(decision, TaskError.NO_INSTANCE)
    lasting = LASTING.issuperset(reasons)
    reason = TaskError(reasons[0]) if lasting else TaskError.NO_INSTANCE
    return NoChoice(decision, reason, "BUSY" in reasons, ", ".join(reasons))


def _decision(strategy: str, places: list[_Place], chosen: InstanceView | None) -> dict[str, Any]:
    """The chosen one first, then those that could not; further ones beyond a screenful are only counted."""
    ordered = sorted(places, key=lambda place: (place.seen.instance is not chosen, place.rejected is None))
    decision: dict[str, Any] = {
        "strategy": strategy,
        "chosen": {"agentId": chosen.agent_id, "instanceId": chosen.instance_id} if chosen else None,
        "candidates": [_shown(place) for place in ordered[:SHOWN]],
    }
    if len(places) > SHOWN:
        decision["omitted"] = len(places) - SHOWN
    return decision


def _shown(place: _Place) -> dict[str, Any]:
    return {
        "agentId": place.seen.candidate.agent.agent_id,
        "instanceId": place.seen.instance.instance_id,
        "score": None,
        "inflight": place.seen.inflight,
        "rejected": place.rejected,
    }

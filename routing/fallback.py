"""What a task falls back on when it would end without a result: a plan of steps, taken one after the other. Pure."""

import dataclasses
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from common.json import dumps, parse
from routing.snapshot.model import Ability

SUBSTITUTE, CACHED, STATIC, PARTIAL = "substitute", "cached", "static", "partial"
DAY_MS = 86_400_000  # the longest that a good result may stand in for a new one


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to fall back on; `ability` of a substitute, `value` of a static answer as JSON."""

    kind: str
    ability: str = ""
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in their order; results of the last `cached_ms` may be used again, 0 = none."""

    steps: tuple[Step, ...] = ()
    cached_ms: int = 0


NO_PLAN = Plan()


def plan_of(asked: Mapping[str, Any] | None, route: Mapping[str, Any], ability: str) -> Plan:
    """The plan for a task of `ability`: what its request says wins, member by member, over its route. A static answer
    may be JSON already, as bytes."""
    given = {**route, **(asked or {})}
    cached_ms = int(route.get("cachedResultMs") or 0)
    if given.get("cachedResult") is not None:
        cached_ms = (cached_ms or DAY_MS) if given["cachedResult"] else 0
    names = dict.fromkeys(given.get("substitutes") or ())
    substitutes = [Step(SUBSTITUTE, name) for name in names if name != ability]
    fixed = [Step(CACHED)] if cached_ms else []
    if given.get("static") is not None:
        static = given["static"]
        fixed.append(Step(STATIC, value=static if isinstance(static, bytes) else dumps(static)))
    ordered = fixed + substitutes if given.get("mode") == "static_first" else substitutes + fixed
    partial = [Step(PARTIAL)] if given.get("partial") else []
    return Plan((*ordered, *partial), cached_ms) if ordered or partial else NO_PLAN


def dependencies_named(details: Mapping[str, Any] | None) -> frozenset[str]:
    """What a failed answer names as the cause: `error.details.dependency`, one name or several."""
    named = (details or {}).get("dependency")
    return frozenset(one for one in (named if isinstance(named, list) else [named]) if isinstance(one, str))


def independent(ability: Ability, down: Collection[str]) -> Ability:
    """The ability without the candidates one of whose dependencies is among those that failed."""
    kept = tuple(one for one in ability.candidates if not set(down) & set(one.capability.dependencies))
    return ability if len(kept) == len(ability.candidates) else dataclasses.replace(ability, candidates=kept)


def digest_of(payload: bytes) -> bytes:
    """The same for payloads that are equal by value, whatever their order and white space."""
    return hashlib.sha256(dumps(_ordered(parse(payload)))).digest()


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_ordered(one) for one in value]
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return {"": str(Decimal(value).normalize())}  # 1 = 1.0, and no number is too long
    return value

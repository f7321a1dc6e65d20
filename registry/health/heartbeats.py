"""What an instance says of itself: components that fail, resources that run short, and how much that weighs."""

from collections.abc import Mapping
from typing import Any

from registry.states import InstanceState

HEALTH_FACTORS = {"ok": 1.0, "degraded": 0.3, "down": 0.3, "unreachable": 0.0}
REASON_LIMIT = 500


def complaint_of(heartbeat: dict[str, Any], limits: Mapping[str, dict[str, float]] | None = None) -> str:
    """What a heartbeat says is wrong: components that are not ok, resources beyond their `limits`
    ({name: {"degradedBelow", "degradedAbove"}}), or its own status; empty when all is well."""
    bad = [f"{name}: {value}" for name, value in sorted(heartbeat.get("components", {}).items()) if value != "ok"]
    bad += _short_of(heartbeat.get("resources", {}), limits or {})
    if bad:
        return ("it reports " + ", ".join(bad))[:REASON_LIMIT]
    return "it reports degraded" if heartbeat.get("status") == "degraded" else ""


def health_factor(state: str, heartbeat: dict[str, Any] | None) -> float:
    """1.0 healthy, 0.3 alive but not well, 0 unreachable; the worst component counts."""
    if state == InstanceState.OFFLINE:
        return 0.0
    said = heartbeat or {}
    worst = min((HEALTH_FACTORS.get(value, 0.3) for value in said.get("components", {}).values()), default=1.0)
    return min(worst, 0.3 if said.get("status") == "degraded" or state == InstanceState.DEGRADED else 1.0)


def _short_of(resources: dict[str, float | None], limits: Mapping[str, dict[str, float]]) -> list[str]:
    """Without the amounts: those differ in each heartbeat, and a complaint that stays the same is written once."""
    short = []
    for name, limit in sorted(limits.items()):
        amount, low, high = resources.get(name), limit.get("degradedBelow"), limit.get("degradedAbove")
        if amount is None:
            continue
        if low is not None and amount < low:
            short.append(f"{name} below {low:g}")
        elif high is not None and amount > high:
            short.append(f"{name} above {high:g}")
    return short

"""Resources that crossed a threshold of the manifest between two heartbeats. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

Limits = Mapping[str, Mapping[str, float]]  # {name: {"degradedBelow", "degradedAbove"}}


class Crossing(NamedTuple):
    """`status` is "short" or "recovered"; `bound` the threshold's name and `limit` its value; `amount` what the
    heartbeat says now, None when it no longer says."""

    resource: str
    status: str
    bound: str
    limit: float
    amount: float | None


def crossings(before: Mapping[str, Any] | None, after: Mapping[str, Any], limits: Limits) -> list[Crossing]:
    """What changed sides from one heartbeat to the next, by name; nothing was short before the first one."""
    old, now = (said.get("resources") or {} for said in (before or {}, after))
    was, is_ = _short(old, limits), _short(now, limits)
    return [
        Crossing(name, "short" if name in is_ else "recovered", *(is_.get(name) or was[name]), now.get(name))
        for name in sorted(limits)
        if is_.get(name) != was.get(name)
    ]


def _short(resources: Mapping[str, float | None], limits: Limits) -> dict[str, tuple[str, float]]:
    """{resource: (bound, limit)} of those beyond a threshold; as in `registry.health.complaint_of`."""
    found = {}
    for name, limit in limits.items():
        amount, low, high = resources.get(name), limit.get("degradedBelow"), limit.get("degradedAbove")
        if amount is not None and low is not None and amount < low:
            found[name] = ("degradedBelow", low)
        elif amount is not None and high is not None and amount > high:
            found[name] = ("degradedAbove", high)
    return found

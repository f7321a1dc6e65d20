"""How much an ability can do at a time, and how many one waits behind. Pure."""

import math
from collections.abc import Collection

from routing.filters import INSTANCE_SHARE, UNDECLARED
from routing.snapshot import Ability


def capacity_of(ability: Ability, barred: Collection[tuple[str, str]] = ()) -> int:
    """Calls that may be in flight at a time, by the route and the instances that are there and that no breaker has
    `barred`."""
    most = ability.route.limits.get("maxInflight")
    share = float(ability.route.limits.get("instanceShare", INSTANCE_SHARE))
    total = sum(
        UNDECLARED if one.max_concurrency is None else max(1, math.floor(share * one.max_concurrency))
        for candidate in ability.candidates
        for one in candidate.agent.instances
        if one.state != "OFFLINE" and not one.draining and not candidate.agent.maintenance and one.key not in barred
    )
    return total if most is None else min(int(most), total)


def behind(ahead: int, running: int, capacity: int) -> int:
    """How many have to end before one with so many ahead of it may begin; 0 = at once."""
    return max(0, running + ahead + 1 - capacity)

"""What weights mean as shares of the traffic, and which weights make the shares that somebody wants. Pure."""

from collections.abc import Sequence
from math import gcd

STEPS = (5, 10, 25, 50, 100)  # per cent, a canary's usual way up
HIGHEST = 1_000_000  # the highest weight that a route table takes

Weights = Sequence[int | None]  # of the candidates, in order; None = in the strategy's pool


def shares(weights: Weights) -> list[float | None]:
    """Each one's set share, 0 to 1. None without any weight: the strategy alone decides. While some have a weight, the
    pool is only asked when none of them can (`routing.choice`)."""
    whole = sum(one or 0 for one in weights)
    return [(one or 0) / whole if whole else None for one in weights]


def stepped(weights: Weights, place: int, percent: int) -> list[int | None]:
    """The weights that give the candidate at `place` exactly `percent` of the traffic and leave the others the rest, in
    the proportion that they have now; those that have none share it evenly. A single candidate has it all."""
    others = {at: one or 0 for at, one in enumerate(weights) if at != place}
    if not sum(others.values()):
        pool = [at for at in others if weights[at] is None] or list(others)
        others = {at: int(at in pool) for at in others}
    whole = sum(others.values())
    if not whole or percent == 100:
        return [100 if at == place else 0 for at in range(len(weights))]
    found = {at: one * (100 - percent) for at, one in others.items()} | {place: whole * percent}
    return _small([found[at] for at in range(len(weights))])


def _small(weights: list[int]) -> list[int | None]:
    """The same proportions in whole numbers, per cent where those do, else the smallest; the nearest ones where they
    are higher than a route table takes."""
    common = gcd(*weights)
    least = [one // common for one in weights]
    whole = sum(least)
    found = [one * (100 // whole) for one in least] if 100 % whole == 0 else least
    highest = max(found)
    if highest <= HIGHEST:
        return list(found)
    return [max(1, round(one * HIGHEST / highest)) if one else 0 for one in found]

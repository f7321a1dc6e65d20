"""The reachability score: how well an instance can be reached, from 0 to 1, with the parts that it is made of."""

from dataclasses import dataclass, fields

LATENCY_CEILING_MS = 500.0
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Parts:
    """Factors from 0 to 1; None where nothing is known, which then does not count."""

    health: float
    latency: float | None = None
    success: float | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts; they need not add up to 1."""

    health: float = 0.5
    latency: float = 0.3
    success: float = 0.2


DEFAULT = Weights()


def latency_factor(mean_ms: float, ceiling_ms: float = LATENCY_CEILING_MS) -> float:
    """1 at 0 ms, falling in a straight line to 0 at the ceiling."""
    return max(0.0, 1.0 - mean_ms / ceiling_ms)


def score(parts: Parts, weights: Weights = DEFAULT) -> float:
    """The weighted mean of the parts that are known, to four decimals; 0 where none of them has a weight."""
    known = [
        (getattr(weights, part.name), getattr(parts, part.name))
        for part in fields(Parts)
        if getattr(parts, part.name) is not None
    ]
    total = sum(weight for weight, _ in known)
    return round(sum(weight * factor for weight, factor in known) / total, _DIGITS) if total else 0.0

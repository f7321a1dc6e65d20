"""Every figure of the health rule, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from registry.score import LATENCY_CEILING_MS

HEARTBEAT_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """The defaults of the platform; what an agent's manifest may set is taken from there. `_s` = seconds."""

    lost_after_s: float = 30.0  # not heard for so long = lost
    probe_retries: int = 3  # failed probes in a row = out
    probe_fresh_s: float = 300.0  # an older probe says nothing any more
    failing_for_s: float = 30.0  # nothing but failed calls for so long …
    failing_calls: int = 3  # … and at least so many = out
    dead_calls: int = 3  # so many calls in a row that reached nobody = out at once
    ejected_for_s: float = 30.0  # what its calls took out stays out for so long
    proof_successes: int = 5  # a new one is proved by so many successes in a row …
    proof_after_s: float = 30.0  # … and so much time
    window_s: float = 60.0  # the calls that latency and failure share are measured on
    slow_factor: float = 3.0  # P95 over so many times its baseline = degraded
    slow_calls: int = 10  # fewer calls have no P95
    slow_floor_ms: float = 100.0  # nobody is slow below this: three times 2 ms is no trouble
    sla_ms: float | None = None  # P95 over this = degraded, whatever the baseline
    failure_share: float = 0.2  # a greater share of failed calls = degraded …
    failure_calls: int = 10  # … of at least so many
    recovered_share: float = 2 / 3  # a degraded one is well again below this share of those limits …
    recovered_after_s: float = 60.0  # … for so long
    drift_answers: int = 50  # of so many newest answers …
    drift_share: float = 0.1  # … a greater share that does not fit the declared output schema = degraded
    latency_ceiling_ms: float = LATENCY_CEILING_MS  # a mean latency of this has factor 0
    resources: Mapping[str, dict[str, float]] = field(default_factory=dict)  # {name: {degradedBelow, degradedAbove}}
    contract_since: float = 0.0  # earlier answers were compared with another revision's schema


def settings_from(spec: dict[str, Any], base: HealthSettings) -> HealthSettings:
    """`base` with what a manifest's spec says: probe.retries, limits.latencyCeilingMs, resources, latencySlaMs.

    The agreed latency counts where every capability has one, and then the longest: calls are not told apart."""
    agreed = [one.get("latencySlaMs") for one in spec.get("capabilities", ())]
    known = [ms for ms in agreed if ms is not None]
    return replace(
        base,
        probe_retries=(spec.get("probe") or {}).get("retries", base.probe_retries),
        latency_ceiling_ms=(spec.get("limits") or {}).get("latencyCeilingMs", base.latency_ceiling_ms),
        resources=spec.get("resources") or base.resources,
        sla_ms=max(known) if known and len(known) == len(agreed) else base.sla_ms,
    )

"""The figures of the health rule as settings: REACH_HEALTH_ and the figure's name, each with its bounds."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from reach_platform.setting_values import number
from registry.health.figures import HealthSettings

PREFIX = "REACH_HEALTH_"
_FIGURES = {  # name: (least, most, meaning); names end with their unit
    "lost_after_s": (5, 3600, "Seconds without a heartbeat after which an instance is lost."),
    "probe_retries": (1, 100, "Failed probes in a row that take an instance out, unless its manifest says."),
    "probe_fresh_s": (10, 86_400, "Seconds after which a probe says nothing any more."),
    "failing_for_s": (1, 3600, "Seconds of nothing but failed calls that take an instance out …"),
    "failing_calls": (2, 200, "… if they are at least so many."),
    "dead_calls": (2, 200, "Calls in a row that reached nobody and take an instance out at once."),
    "ejected_for_s": (0, 3600, "Seconds for which an instance that its calls took out stays out at the least."),
    "proof_successes": (1, 10, "Successes in a row that prove a new instance …"),
    "proof_after_s": (0, 3600, "… once it has been there for so many seconds."),
    "window_s": (5, 3600, "Seconds of calls that latency and failure share are measured on."),
    "slow_factor": (1.1, 1000, "Times its usual P95 that make an instance degraded."),
    "slow_calls": (1, 200, "Calls that a P95 needs at the least."),
    "slow_floor_ms": (0, 60_000, "Milliseconds below which nobody is slow."),
    "failure_share": (0, 1, "Share of failed calls above which an instance is degraded …"),
    "failure_calls": (1, 200, "… if there were at least so many calls."),
    "recovered_share": (0.1, 1, "Share of those limits below which a degraded instance is well again …"),
    "recovered_after_s": (0, 3600, "… for so many seconds."),
    "drift_answers": (10, 200, "Newest answers that are compared with the declared output schema."),
    "drift_share": (0, 1, "Share of them that does not fit above which an instance is degraded."),
    "latency_ceiling_ms": (1, 86_400_000, "Mean latency with factor 0 in the score (ms), unless the manifest says."),
}


def rows() -> list[tuple[str, Callable[[str], Any], Any, str, str]]:
    """(name, parse, default, meaning, range) of each."""
    defaults = {field.name: field.default for field in fields(HealthSettings)}
    return [
        (
            PREFIX + name.upper(),
            number(low, high, whole=isinstance(defaults[name], int)),
            defaults[name],
            meaning,
            f"{low} to {high}",
        )
        for name, (low, high, meaning) in _FIGURES.items()
    ]


def figures(values: dict[str, Any]) -> dict[str, float]:
    """The figures by the names that the rule has for them, from the values of all settings."""
    return {name: values[PREFIX + name.upper()] for name in _FIGURES}

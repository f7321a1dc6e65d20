"""Scores from the evidence, and the baselines that "slow" is measured against."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.health import HealthSettings, health_factor
from registry.health.evidence import Drift, drift_of, failure_share, mean_ms, p95_ms, results, within
from registry.models import Agent, Instance
from registry.score import Parts, latency_factor, score
from registry.services import evidence, figures, judging
from registry.services.evidence import Kept, Scored
from registry.states import InstanceState

SUCCESS_CALLS = 100
ACTIVE_S = 120.0  # longer than the measured minute, so that a score is also computed once after traffic ended
BASELINE_SHARE = 1 / 60  # of a new P95 in the baseline: at one each 15 s it follows within a quarter of an hour
SCORED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Shown:
    """What pages show beside the row: `drift` as the rule counts it, `suspects` = probers that fail everywhere."""

    kept: Kept
    scored: Scored
    drift: Drift
    suspects: set[str]


def score_active(now: datetime) -> int:
    """Score and judge every instance with calls lately; returns how many were scored."""
    active = evidence.active_since(now.timestamp() - ACTIVE_S)
    for start in range(0, len(active), SCORED_AT_ONCE):
        some = active[start : start + SCORED_AT_ONCE]
        _score(some, now)
        judging.judge_instances(some, now)
    return len(active)


def scored(state: str, heartbeat: dict[str, Any] | None, kept: Kept, settings: HealthSettings, now: datetime) -> Scored:
    """The score and its parts; without traffic latency and success are None and do not count."""
    mean = mean_ms(within(kept.calls, now.timestamp() - settings.window_s))
    failing = failure_share(results(kept.calls)[-SUCCESS_CALLS:])
    parts = Parts(
        health=health_factor(state, heartbeat),
        latency=None if mean is None else latency_factor(mean, settings.latency_ceiling_ms),
        success=None if failing is None else 1.0 - failing,
    )
    last_ms = next((call.ms for call in reversed(kept.calls) if call.ok and call.ms is not None), None)
    return Scored(score(parts), parts.health, _rounded(parts.latency), _rounded(parts.success), last_ms, mean)


def shown(agent: Agent, rows: Iterable[Instance], now: datetime) -> dict[int, Shown]:
    """What there is to see of an agent's instances, by instance, as of now."""
    rows = list(rows)
    settings = figures.of_agents([(agent.pk, agent.revision)])[agent.pk]
    kept = evidence.read([row.pk for row in rows])
    suspects = evidence.suspects({probe.prober for one in kept.values() for probe in one.probes[-1:]})
    return {row.pk: _shown(row, kept[row.pk], settings, suspects, now) for row in rows}


def _shown(row: Instance, kept: Kept, settings: HealthSettings, suspects: set[str], now: datetime) -> Shown:
    drift = drift_of(kept.calls, settings.drift_answers, max(settings.contract_since, kept.slate_since))
    return Shown(kept, scored(row.state, row.heartbeat, kept, settings, now), drift, suspects)


def _score(instance_pks: list[int], now: datetime) -> None:
    rows = list(
        Instance.objects.filter(pk__in=instance_pks, left_at=None, agent__deleted_at=None)
        .select_related("agent")
        .only("state", "heartbeat", "agent__revision")
    )
    settings = figures.of_agents((row.agent_id, row.agent.revision) for row in rows)
    kept = evidence.read([row.pk for row in rows])
    scores = {}
    for row in rows:
        known, figures_ = kept[row.pk], settings[row.agent_id]
        base = _baseline(row.state, known, figures_, now)
        scores[row.pk] = scored(row.state, row.heartbeat, known, figures_, now), base
    evidence.keep_scores(scores)


def _baseline(state: str, kept: Kept, settings: HealthSettings, now: datetime) -> float | None:
    """What is usual: follows slowly, and only while the instance is well, so that trouble never becomes usual."""
    slow = p95_ms(within(kept.calls, now.timestamp() - settings.window_s), settings.slow_calls)
    if slow is None or state not in (InstanceState.NEW, InstanceState.ONLINE):
        return None
    if kept.baseline_ms is None:
        return slow
    if slow > settings.slow_factor * kept.baseline_ms:
        return None
    return round(kept.baseline_ms + BASELINE_SHARE * (slow - kept.baseline_ms), 3)


def _rounded(factor: float | None) -> float | None:
    return None if factor is None else round(factor, 4)

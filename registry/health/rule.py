"""The rule for instance states, as a pure function of evidence (docs/health.md has the table).

Out needs several bad signs in a row from one kind of evidence, and back in needs all that took it out to be over:
so one blip moves nobody out, and nobody goes back and forth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.health.evidence import (
    Call,
    Evidence,
    Probe,
    drift_of,
    failure_share,
    failures_in_a_row,
    p95_ms,
    results,
    within,
)
from registry.health.figures import HealthSettings
from registry.health.heartbeats import REASON_LIMIT
from registry.states import InstanceState

UNREACHABLE = "UNREACHABLE"
EJECTED = "ejected: "  # begins the reason where live calls have a say: of those only a share may be out
NEW, ONLINE, DEGRADED, OFFLINE = InstanceState.NEW, InstanceState.ONLINE, InstanceState.DEGRADED, InstanceState.OFFLINE


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state that follows; without a move `reason` is empty. `by` names the kind of evidence that takes an instance
    out: "left", "heartbeat", "probes", "calls", or "contested" where bad probes and good calls contradict."""

    state: str
    reason: str = ""
    by: str = ""


def judge(evidence: Evidence, state: str, settings: HealthSettings, now: datetime) -> Verdict:
    """The state that an instance in `state` should have."""
    at = now.timestamp()
    if evidence.left:
        return _out(state, "it left", "left")
    if state == OFFLINE:
        return _back(evidence, settings, at)
    reason, by = _why_out(evidence, state, settings, at)
    if reason:
        return _out(state, reason, by)
    if state == NEW:
        return _new(evidence, settings, at)
    if state == ONLINE:
        trouble = _trouble(evidence, settings, at, 1.0)
        return Verdict(DEGRADED, trouble) if trouble else Verdict(state)
    return _degraded(evidence, settings, at)


def is_lost(evidence: Evidence, settings: HealthSettings, at: float) -> bool:
    """Whether an instance that sends heartbeats was not heard for too long."""
    if not (evidence.listens and evidence.silence_counts) or evidence.heard_at is None:
        return False
    return at - evidence.heard_at >= settings.lost_after_s


def _out(state: str, reason: str, by: str) -> Verdict:
    return Verdict(state) if state == OFFLINE else Verdict(OFFLINE, reason[:REASON_LIMIT], by)


def _why_out(evidence: Evidence, state: str, settings: HealthSettings, at: float) -> tuple[str, str]:
    """(reason, kind of evidence) for taking no traffic; empty when there is none."""
    if is_lost(evidence, settings, at):
        return f"not heard for {settings.lost_after_s:g} s", "heartbeat"
    since = evidence.state_since if state == NEW else float("-inf")  # it comes back with a clean slate
    failed = [probe for probe in failures_in_a_row(_usable_probes(evidence, settings, at)) if probe.at >= since]
    if len(failed) >= settings.probe_retries:
        return _why_out_by_probes(failed, evidence)
    calls = [call for call in evidence.calls if call.at >= since]
    run = failures_in_a_row(results(calls))
    if run and at - run[-1].at <= settings.window_s:
        return _why_ejected(calls, run, settings, at)
    return "", ""


def _why_out_by_probes(failed: Sequence[Probe], evidence: Evidence) -> tuple[str, str]:
    """Where its calls succeed all the same, either may be wrong, and it is ejected as others are by their calls."""
    why = f"{len(failed)} failed probes in a row, the last: {failed[-1].reason or 'failed'}"
    newest = results(evidence.calls)[-1:]
    if newest and newest[0].ok and newest[0].at > failed[0].at:
        return f"{EJECTED}{why}; its calls succeed", "contested"
    return why, "probes"


def _why_ejected(calls: list[Call], run: Sequence[Call], settings: HealthSettings, at: float) -> tuple[str, str]:
    last = calls[-settings.dead_calls :]
    if len(last) == settings.dead_calls and all(call.code == UNREACHABLE for call in last):
        return f"{EJECTED}its last {settings.dead_calls} calls reached nobody", "calls"
    if len(run) >= settings.failing_calls and at - run[0].at >= settings.failing_for_s:
        seconds = at - run[0].at
        return f"{EJECTED}nothing but failed calls for {seconds:.0f} s ({len(run)}, the last: {run[-1].code})", "calls"
    return "", ""


def _usable_probes(evidence: Evidence, settings: HealthSettings, at: float) -> tuple[Probe, ...]:
    """None at all where the prober is suspect, or has stopped."""
    probes = evidence.probes
    stale = not probes or at - probes[-1].at > settings.probe_fresh_s
    return () if evidence.suspect or stale else probes


def _back(evidence: Evidence, settings: HealthSettings, at: float) -> Verdict:
    """From OFFLINE only to NEW, by a sign of life, once all that takes an instance out is over."""
    since, probes = evidence.state_since, _usable_probes(evidence, settings, at)
    if is_lost(evidence, settings, at) or (probes and not probes[-1].ok):
        return Verdict(OFFLINE)
    run = [call for call in failures_in_a_row(results(evidence.calls)) if call.at >= since - settings.window_s]
    if len(run) >= min(settings.dead_calls, settings.failing_calls) and at - since < settings.ejected_for_s:
        return Verdict(OFFLINE)
    if evidence.listens and evidence.heard_at is not None and evidence.heard_at > since:
        return Verdict(NEW, "heard again")
    if probes and probes[-1].at > since:
        return Verdict(NEW, "a probe succeeded")
    return Verdict(OFFLINE)


def _new(evidence: Evidence, settings: HealthSettings, at: float) -> Verdict:
    if evidence.complaint:
        return Verdict(DEGRADED, evidence.complaint)
    proved = _successes_in_a_row(evidence) >= settings.proof_successes
    waited = at - evidence.state_since >= settings.proof_after_s
    if proved and waited and not _trouble(evidence, settings, at, 1.0):
        return Verdict(ONLINE, f"{settings.proof_successes} successes in a row and {settings.proof_after_s:g} s")
    return Verdict(NEW)


def _degraded(evidence: Evidence, settings: HealthSettings, at: float) -> Verdict:
    """Well again when the whole last minute was clearly below the limits, not just under them."""
    for_long = settings.recovered_after_s
    good_since = evidence.good_since
    said_well = not evidence.complaint and (good_since is None or at - good_since >= for_long)
    waited = at - evidence.state_since >= for_long
    if said_well and waited and not _trouble(evidence, settings, at, settings.recovered_share):
        return Verdict(ONLINE, f"well again for {for_long:g} s")
    return Verdict(DEGRADED)


def _successes_in_a_row(evidence: Evidence) -> int:
    """Good heartbeats, probes and calls since the last bad probe or call, in this state."""
    checks: list[Probe | Call] = [*results(evidence.calls)]
    checks += [] if evidence.suspect else evidence.probes
    since = max([evidence.state_since, *(one.at for one in checks if not one.ok)])
    return sum(at > since for at in evidence.beats) + sum(one.ok and one.at > since for one in checks)


def _trouble(evidence: Evidence, settings: HealthSettings, at: float, share: float) -> str:
    """What makes it take less traffic; with a `share` below 1 the limits are that much stricter."""
    if evidence.complaint:
        return evidence.complaint
    calls = within(results(evidence.calls), at - settings.window_s)
    at_least = settings.failure_calls if share == 1.0 else 1  # in doubt it stays as it is
    failing = failure_share(calls, at_least)
    if failing is not None and failing > settings.failure_share * share:
        return f"{failing:.0%} of its last {len(calls)} calls failed"
    slow, limit_ms = p95_ms(calls, settings.slow_calls if share == 1.0 else 1), _slow_ms(evidence, settings)
    if slow is not None and limit_ms is not None and slow > limit_ms * share:
        return f"95% of its calls take up to {slow:.0f} ms, over {limit_ms:.0f} ms"
    drift = drift_of(evidence.calls, settings.drift_answers, max(settings.contract_since, evidence.slate_since))
    if drift.misfits > settings.drift_share * settings.drift_answers * share:
        return f"{drift.misfits} of its last {drift.answers} answers do not fit the declared output schema"
    return ""


def _slow_ms(evidence: Evidence, settings: HealthSettings) -> float | None:
    if settings.sla_ms is not None:
        return settings.sla_ms
    if evidence.baseline_ms is None:
        return None
    return max(evidence.baseline_ms * settings.slow_factor, settings.slow_floor_ms)

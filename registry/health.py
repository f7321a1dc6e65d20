"""The rule for instance states, as a pure function of evidence.

For now the evidence is what instances say of themselves; what probes and real traffic show joins in here.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from registry.states import InstanceState

HEARTBEAT_INTERVAL_MS = 10_000
LOST_AFTER = timedelta(seconds=30)
PROVED_AFTER = timedelta(seconds=30)
RECOVERED_AFTER = timedelta(seconds=15)
HEALTH_FACTORS = {"ok": 1.0, "degraded": 0.3, "down": 0.3, "unreachable": 0.0}
REASON_LIMIT = 500


@dataclass(frozen=True)
class Evidence:
    """What is known of an instance. `good_since` is since when every heartbeat was good, None when the last was not;
    `complaint` is what the last one said is wrong; `left` = it said goodbye; `listens` = it sends heartbeats at all."""

    state: str
    state_since: datetime
    last_heard_at: datetime | None
    good_since: datetime | None
    complaint: str = ""
    left: bool = False
    listens: bool = True


def next_state(evidence: Evidence, now: datetime) -> tuple[str, str]:
    """(state, reason); the same state means no move, and the reason is then empty."""
    state = evidence.state
    if evidence.left or _is_lost(evidence, now):
        why = "it left" if evidence.left else f"not heard for {LOST_AFTER.seconds} s"
        return _move(state, InstanceState.OFFLINE, why)
    if state == InstanceState.OFFLINE:
        return (InstanceState.NEW, "heard again") if evidence.last_heard_at else (state, "")
    if evidence.complaint:
        return _move(state, InstanceState.DEGRADED, evidence.complaint)
    good_for = now - max(evidence.good_since, evidence.state_since) if evidence.good_since else timedelta(0)
    if state == InstanceState.NEW and good_for >= PROVED_AFTER:
        return InstanceState.ONLINE, f"good heartbeats for {PROVED_AFTER.seconds} s"
    if state == InstanceState.DEGRADED and good_for >= RECOVERED_AFTER:
        return InstanceState.ONLINE, f"good heartbeats again for {RECOVERED_AFTER.seconds} s"
    return state, ""


def complaint_of(heartbeat: dict[str, Any]) -> str:
    """What a heartbeat says is wrong: its own status, or the components that are not ok; empty when all is well."""
    bad = [f"{name}: {value}" for name, value in sorted(heartbeat.get("components", {}).items()) if value != "ok"]
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


def _is_lost(evidence: Evidence, now: datetime) -> bool:
    return evidence.listens and evidence.last_heard_at is not None and now - evidence.last_heard_at >= LOST_AFTER


def _move(state: str, to: str, reason: str) -> tuple[str, str]:
    return (state, "") if state == to else (to, reason)

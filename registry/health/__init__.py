"""Who can do the work, and are they well: the rule, what it looks at, and its figures. Pure."""

from registry.health.evidence import RECEIVED, Call, Evidence, Probe
from registry.health.figures import HEARTBEAT_INTERVAL_MS, HealthSettings, settings_from
from registry.health.heartbeats import complaint_of, health_factor
from registry.health.rule import EJECTED, Verdict, judge

__all__ = [
    "EJECTED",
    "HEARTBEAT_INTERVAL_MS",
    "RECEIVED",
    "Call",
    "Evidence",
    "HealthSettings",
    "Probe",
    "Verdict",
    "complaint_of",
    "health_factor",
    "judge",
    "settings_from",
]

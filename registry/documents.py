"""Agents, instances, revisions and audit entries as the API shows them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from common.clock import rfc3339
from registry.health import Probe
from registry.models import Agent, Audit, Instance, Revision, StateChange
from registry.services.scoring import Shown

PRIVATE_PARTS = ("endpoints", "adapter", "probe")  # how an agent is reached is not its callers' business


def agent_summary(agent: Agent) -> dict[str, Any]:
    """An agent in a list."""
    return {
        "agentId": agent.agent_id,
        "namespace": agent.namespace_id,
        "displayName": agent.display_name,
        "owner": agent.owner,
        "version": agent.version,
        "revision": agent.revision,
        "tags": agent.tags,
        "external": agent.external,
        "maintenance": agent.maintenance,
        "createdAt": rfc3339(agent.created_at),
        "updatedAt": rfc3339(agent.updated_at),
    }


def agent_document(agent: Agent, instances: Iterable[Instance], *, private: bool) -> dict[str, Any]:
    """An agent with its manifest; `private` parts (addresses, adapter, probe) are for its owner and operators."""
    return {
        **agent_summary(agent),
        "manifest": agent.manifest if private else _public(agent.manifest),
        "warnings": agent.warnings,
        "instances": [instance_document(one, private=private) for one in instances],
    }


def _public(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in manifest.get("spec", {}).items() if key not in PRIVATE_PARTS}
    return {**manifest, "spec": spec}


def instance_document(one: Instance, *, private: bool) -> dict[str, Any]:
    """An instance as it was registered, with its state."""
    places = {
        "invokeUrl": one.invoke_url or None,
        "healthUrl": one.health_url or None,
        "lookupUrl": one.lookup_url or None,
        "networks": one.networks,
    }
    return {
        "instanceId": one.instance_id,
        "implicit": one.implicit,
        **(places if private else {}),
        "region": one.region or None,
        "zone": one.zone or None,
        "version": one.version or None,
        "labels": one.labels,
        "cost": one.cost,
        "weight": one.weight,
        "maxConcurrency": one.max_concurrency,
        "preferChannel": one.prefer_channel or None,
        "state": one.state,
        "stateSince": rfc3339(one.state_since),
        "draining": one.draining,
    }


def health_document(
    one: Instance, changes: Iterable[StateChange], shown: Shown, breaker: dict[str, Any]
) -> dict[str, Any]:
    """How an instance is, why, and since when; parts without traffic yet are null and do not count."""
    said, kept, scored = one.heartbeat or {}, shown.kept, shown.scored
    return {
        "instanceId": one.instance_id,
        "state": one.state,
        "stateSince": rfc3339(one.state_since),
        "reason": one.reason,
        "breaker": breaker,
        "score": scored.score,
        "parts": {"health": scored.health, "latency": scored.latency, "success": scored.success},
        "draining": one.draining,
        "weight": one.weight,
        "weightPercent": one.weight_percent,
        "inflight": said.get("inflight") if kept.inflight is None else kept.inflight,
        "components": said.get("components", {}),
        "resources": said.get("resources", {}) if kept.resources is None else kept.resources,
        "registeredAt": rfc3339(one.registered_at),
        "lastHeartbeatAt": rfc3339(_last_heard(one, kept.heard_at)),
        "lastLatencyMs": scored.last_ms,
        "baselineP95Ms": kept.baseline_ms,
        "drift": drift_document([shown]),
        "proberSuspect": any(probe.prober in shown.suspects for probe in kept.probes[-1:]),
        "probes": [probe_document(probe) for probe in reversed(kept.probes)],
        "changes": [
            {"at": rfc3339(c.at), "from": c.from_state or None, "to": c.to_state, "reason": c.reason} for c in changes
        ],
    }


def drift_document(shown: Iterable[Shown]) -> dict[str, Any]:
    """How many of the newest answers do not fit the declared output schema; `share` is None without any."""
    drifts = [one.drift for one in shown]
    answers, misfits = sum(one.answers for one in drifts), sum(one.misfits for one in drifts)
    return {"answers": answers, "misfits": misfits, "share": round(misfits / answers, 4) if answers else None}


def probe_document(probe: Probe) -> dict[str, Any]:
    """One probe of an instance."""
    return {
        "at": rfc3339(datetime.fromtimestamp(probe.at, UTC)),
        "ok": probe.ok,
        "ms": probe.ms,
        "reason": probe.reason,
        "prober": probe.prober,
    }


def _last_heard(one: Instance, kept: float | None) -> datetime | None:
    """The later of the row's time and the one that was kept since."""
    heard = None if kept is None else datetime.fromtimestamp(kept, UTC)
    return max((at for at in (one.last_heard_at, heard) if at is not None), default=None)


def revision_document(revision: Revision) -> dict[str, Any]:
    """One revision in an agent's history."""
    return {
        "revision": revision.number,
        "version": revision.manifest.get("metadata", {}).get("version"),
        "createdAt": rfc3339(revision.created_at),
        "createdBy": revision.created_by,
        "digest": revision.digest,
        "warnings": revision.warnings,
        "manifest": revision.manifest,
    }


def audit_document(entry: Audit) -> dict[str, Any]:
    """One audit entry."""
    return {
        "at": rfc3339(entry.at),
        "actor": entry.actor,
        "ip": entry.ip,
        "namespace": entry.namespace or None,
        "action": entry.action,
        "object": entry.object,
        "before": entry.before,
        "after": entry.after,
    }

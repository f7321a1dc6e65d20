"""Instances: registered, heard, draining, lost, gone. Every move of a state is written down with its reason."""

import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction

from common.clock import parse_time, rfc3339
from common.database import hot_cursor, robust
from common.errors import Invalid, NotFound
from registry import instance_cache, news
from registry.addresses import HTTP, INVOKE, wrong_address
from registry.health import HealthSettings, complaint_of, health_factor, judge
from registry.instance_cache import Place, says_something_new
from registry.models import Agent, Instance, StateChange
from registry.services import audit, changes, evidence, figures, hook_events, judging
from registry.states import InstanceState

WRITE_EVERY_S = 10.0  # a row's heard-time, while Redis is away
IMPLICIT = "default"
FIELDS = {  # the body's names and the columns; what a PUT leaves out goes back to the column's default
    "invokeUrl": "invoke_url",
    "healthUrl": "health_url",
    "lookupUrl": "lookup_url",
    "networks": "networks",
    "region": "region",
    "zone": "zone",
    "version": "version",
    "labels": "labels",
    "cost": "cost",
    "weight": "weight",
    "maxConcurrency": "max_concurrency",
    "preferChannel": "prefer_channel",
}


_PLACE = """
SELECT i.id, i.state, i.state_since, i.draining, i.weight_percent, i.heartbeat::text, i.last_heard_at, a.id, a.revision
FROM registry_agent a JOIN registry_instance i ON i.agent_id = a.id
WHERE a.namespace = %s AND a.agent_id = %s AND a.deleted_at IS NULL AND i.instance_id = %s AND i.left_at IS NULL
  AND NOT i.implicit"""

_moving = threading.Lock()


@dataclass(frozen=True)
class Heard:
    """The answer to a heartbeat; `registered` is False when a new PUT is wanted."""

    state: str
    score: float
    registered: bool


def put(
    namespace: str,
    agent_id: str,
    instance_id: str,
    body: dict[str, Any],
    *,
    actor: str,
    now: datetime,
    ip: str = "",
) -> tuple[Instance, bool]:
    """Register a running copy, or say again what it is; returns it and whether it is new.

    Raises NotFound (no such agent) and Invalid (addresses that are not called from here).
    """
    _check_addresses(body)
    with transaction.atomic():
        agent = _agent(namespace, agent_id)
        row = Instance.objects.select_for_update(no_key=True).filter(agent=agent, instance_id=instance_id).first()
        new = row is None or row.left_at is not None or row.implicit
        row = row or Instance(agent=agent, instance_id=instance_id, state=InstanceState.NEW, state_since=now)
        changed = _set_fields(row, body) or new
        if new:
            agent.instances.filter(implicit=True).exclude(instance_id=instance_id).delete()
            row.implicit = False
            _start(row, now)
        row.last_heard_at = now
        moved = row.state == InstanceState.OFFLINE and _set_state(row, InstanceState.NEW, "registered again", now)
        if moved:
            evidence.forget(row.pk)
        row.save()
        judging.tell([row.pk])
        if changed:
            audit.record(
                actor, "instance.register", f"instance:{agent_id}/{instance_id}", namespace=namespace,
                after=_described(row), ip=ip, now=now,
            )  # fmt: skip
        if changed or moved:
            before = InstanceState.OFFLINE if moved else row.state
            changes.touch(namespace, [_news("instance.registered" if new else "", agent_id, row, before, now)])
    return row, new


def leave(namespace: str, agent_id: str, instance_id: str, *, actor: str, now: datetime, ip: str = "") -> None:
    """Take an instance out at once, for good; running tasks may finish. Raises NotFound."""
    with transaction.atomic():
        agent = _agent(namespace, agent_id)
        row = Instance.objects.select_for_update(no_key=True).filter(agent=agent, instance_id=instance_id).first()
        if row is None:
            raise NotFound
        if row.left_at is None:
            retire(row, "it left", now)
            name = f"instance:{agent_id}/{instance_id}"
            audit.record(actor, "instance.leave", name, namespace=namespace, ip=ip, now=now)
            changes.touch(namespace, [_news("instance.left", agent_id, row, row.state, now)])


def heartbeat(namespace: str, agent_id: str, instance_id: str, body: dict[str, Any], *, now: datetime) -> Heard:
    """Hear an instance: one round trip to Redis, and none to the database unless it says something new, or may move.

    Raises NotFound.
    """
    key = (namespace, agent_id, instance_id)
    place = instance_cache.get(key, lambda: _place(*key))
    if place is None:
        return _unknown(namespace, agent_id)
    complaint = complaint_of(body, place.settings.resources)
    proving = place.state == InstanceState.NEW
    known = evidence.heard(place.pk, body, now, good=not complaint, proving=proving)
    if known is not None and known.rev != place.rev:
        place = instance_cache.refresh(key, lambda: _place(*key))
        if place is None:
            return _unknown(namespace, agent_id)
        place.rev = known.rev
    if says_something_new(place, body, complaint):
        return _hear_news(namespace, place, body, now)
    if _may_move(place, now):
        if known is None:
            return _hear_news(namespace, place, body, now)
        # A namespace's moves wait for one another, and would hold all threads when thousands come back at a time: one
        # moves here, the others are moved together by the judge.
        if _moving.acquire(blocking=False):
            try:
                return _hear_news(namespace, place, body, now)
            finally:
                _moving.release()
        evidence.mark([place.pk])
    if known is None and now.timestamp() - place.written_at >= WRITE_EVERY_S:
        Instance.objects.filter(pk=place.pk, left_at=None).update(last_heard_at=now)
        place.written_at = now.timestamp()
    if known is not None and known.scored is not None:
        return Heard(place.state, known.scored.score, registered=True)
    return Heard(place.state, health_factor(place.state, body), registered=True)


def retire(row: Instance, reason: str, now: datetime) -> None:
    """Mark a locked instance as gone, within the caller's transaction."""
    row.left_at = now
    row.draining = True
    _set_state(row, InstanceState.OFFLINE, reason, now)
    row.save()
    judging.tell([row.pk])


def keep_implicit(agent: Agent, now: datetime) -> None:
    """Let the manifest's endpoints stand for an instance `default` while no other is registered."""
    endpoints = agent.manifest["spec"].get("endpoints") or {}
    registered = agent.instances.filter(implicit=False, left_at=None).exists()
    if registered or not endpoints.get("invoke"):
        agent.instances.filter(implicit=True).delete()
        return
    row = agent.instances.filter(instance_id=IMPLICIT).first()
    new = row is None or row.left_at is not None
    row = row or Instance(agent=agent, instance_id=IMPLICIT, state_since=now, registered_at=now)
    for column in FIELDS.values():
        setattr(row, column, _default(column))
    row.implicit = True
    row.invoke_url, row.health_url, row.lookup_url = (endpoints.get(k) or "" for k in ("invoke", "health", "lookup"))
    if new:
        _start(row, now)
    row.save()


def _unknown(namespace: str, agent_id: str) -> Heard:
    """To an instance that is not there; a new PUT is wanted if its agent is."""
    if not Agent.objects.filter(namespace=namespace, agent_id=agent_id, deleted_at=None).exists():
        raise NotFound
    return Heard(InstanceState.OFFLINE, 0.0, registered=False)


def _may_move(place: Place, now: datetime) -> bool:
    """Whether this heartbeat may be what brings it back, or on: then it is judged at once."""
    waited, settings = now.timestamp() - place.state_since, place.settings
    if place.state == InstanceState.OFFLINE:
        return True
    if place.state == InstanceState.NEW:
        return waited >= settings.proof_after_s
    good_for = now.timestamp() - (place.good_since or place.state_since)
    return (
        place.state == InstanceState.DEGRADED
        and not place.complaint
        and min(waited, good_for) >= settings.recovered_after_s
    )


def _hear_news(namespace: str, place: Place, body: dict[str, Any], now: datetime) -> Heard:
    """A heartbeat that may move the state, or that the row must hear of."""
    kept = evidence.read([place.pk])[place.pk]
    with transaction.atomic():
        row = Instance.objects.select_for_update(no_key=True).filter(pk=place.pk, left_at=None).first()
        if row is None:
            instance_cache.forget(place.pk)
            return Heard(InstanceState.OFFLINE, 0.0, registered=False)
        draining, percent = body.get("status") == "draining", body.get("weightPercent", row.weight_percent)
        reroute = (row.draining, row.weight_percent) != (draining, percent)
        row.draining, row.weight_percent = draining, percent
        hook_events.fire_crossings(row, body, place.settings.resources, now)
        row.heartbeat, row.last_heard_at = _said(row, body, place.settings, now), now
        known = judging.evidence_of(row, kept, place.settings)
        verdict = judge(known, row.state, place.settings, now)
        # What only probes or calls can take out is for the judge, who looks at the prober and at the other instances.
        before = row.state
        moved = verdict.state != InstanceState.OFFLINE and _set_state(row, verdict.state, verdict.reason, now)
        row.save(update_fields=["draining", "weight_percent", "heartbeat", "last_heard_at", "state", "state_since",
                                "reason"])  # fmt: skip
        if moved and row.state == InstanceState.NEW:
            evidence.begin_anew([row.pk], now)
        if moved or reroute:
            changes.touch(namespace, [_news("", row.agent.agent_id, row, before, now)])
        judging.tell([row.pk])
    return Heard(row.state, health_factor(row.state, row.heartbeat), registered=True)


def _said(row: Instance, body: dict[str, Any], settings: HealthSettings, now: datetime) -> dict[str, Any]:
    """The heartbeat as the row keeps it: with since when every one was good."""
    since = (row.heartbeat or {}).get("goodSince")
    return {**body, "goodSince": None if complaint_of(body, settings.resources) else since or rfc3339(now)}


def _start(row: Instance, now: datetime) -> None:
    """Begin a registration: a new row, or one that left and comes back."""
    from_state = row.state if row.pk else ""
    row.state, row.state_since, row.reason = InstanceState.NEW, now, "registered"
    row.registered_at, row.left_at, row.last_heard_at = now, None, None
    row.draining, row.weight_percent, row.heartbeat = False, 100, None
    row.probe_due_at, row.probe_claimed_at, row.probed_at = now, None, None
    row.probe_failures, row.probe_successes, row.probe_reason = 0, 0, ""
    row.save()
    evidence.forget(row.pk)  # also of a new row: an earlier database may have had the same number
    if from_state != row.state:
        _write_change(row, from_state, row.state, row.reason, now)


def _agent(namespace: str, agent_id: str) -> Agent:
    rows = Agent.objects.select_for_update(no_key=True).filter(namespace=namespace, agent_id=agent_id, deleted_at=None)
    agent = rows.first()
    if agent is None:
        raise NotFound
    return agent


@robust
def _place(namespace: str, agent_id: str, instance_id: str) -> Place | None:
    """As plain SQL: after a restart every instance is read once, and all of them within an interval."""
    with hot_cursor() as cursor:
        row = cursor.execute(_PLACE, [namespace, agent_id, instance_id], prepare=True).fetchone()
    if row is None:
        return None
    pk, state, since, draining, percent, heartbeat, heard_at, agent_pk, revision = row
    settings = figures.of_agents([(agent_pk, revision)])[agent_pk]
    said = msgspec.json.decode(heartbeat) if heartbeat else {}
    good_since = said.get("goodSince")
    return Place(
        pk=pk,
        state=state,
        state_since=since.timestamp(),
        draining=draining,
        weight_percent=percent,
        status=said.get("status", "ok"),
        components=said.get("components", {}),
        complaint=complaint_of(said, settings.resources),
        good_since=parse_time(good_since).timestamp() if good_since else None,
        settings=settings,
        written_at=heard_at.timestamp() if heard_at else 0.0,
        read_at=time.monotonic(),
    )


def _check_addresses(body: dict[str, Any]) -> None:
    given = [(f"/{key}", body.get(key)) for key in ("invokeUrl", "healthUrl", "lookupUrl")]
    given += [(f"/networks/{name}", url) for name, url in (body.get("networks") or {}).items()]
    errors = []
    for at, url in given:
        schemes = INVOKE if at == "/invokeUrl" or at.startswith("/networks/") else HTTP
        wrong = wrong_address(url, schemes) if url else None
        if wrong:
            errors.append({"pointer": at, "code": "ADDRESS", "message": wrong})
    if errors:
        raise Invalid(errors)


def _set_fields(row: Instance, body: dict[str, Any]) -> bool:
    """Write the body into the row; returns whether anything differs."""
    changed = False
    for key, column in FIELDS.items():
        value = body.get(key)
        value = _default(column) if value is None else value
        changed = changed or getattr(row, column) != value
        setattr(row, column, value)
    return changed


def _default(column: str) -> Any:
    field: Any = Instance._meta.get_field(column)
    return field.get_default()


def _news(event: str, agent_id: str, row: Instance, before: str, now: datetime) -> news.News:
    """What watchers hear: the event, else the move of its state, else that something about it changed."""
    if not event and before != row.state:
        return news.of_state(agent_id, row, before, now)
    return news.of_instance(event or "instance.changed", agent_id, row, now)


def _set_state(row: Instance, state: str, reason: str, now: datetime) -> bool:
    """Move a locked row and write the move down; False when it is there already."""
    if state == row.state:
        return False
    _write_change(row, row.state, state, reason, now)
    row.state, row.state_since, row.reason = state, now, reason
    return True


def _write_change(row: Instance, old: str, new: str, reason: str, now: datetime) -> None:
    change = StateChange.objects.create(instance=row, at=now, from_state=old, to_state=new, reason=reason)
    hook_events.fire_changes([change], now)


def _described(row: Instance) -> dict[str, Any]:
    return {key: getattr(row, column) for key, column in FIELDS.items() if getattr(row, column) not in (None, "", {})}

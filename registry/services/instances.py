"""Instances: registered, told about, gone. Every move of a state is written down with its reason."""

from datetime import datetime
from typing import Any

from django.db import transaction

from common.errors import Invalid, NotFound
from registry import news
from registry.addresses import HTTP, INVOKE, wrong_address
from registry.models import Agent, Instance, StateChange
from registry.services import audit, changes, evidence, hook_events, judging
from registry.states import InstanceState

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
        before = None if new else _described(row)
        changed = _set_fields(row, body) or new
        if new:
            agent.instances.filter(implicit=True).exclude(instance_id=instance_id).delete()
            row.implicit = False
            _start(row, now)
        row.last_heard_at = now
        moved = row.state == InstanceState.OFFLINE and set_state(row, InstanceState.NEW, "registered again", now)
        if moved:
            evidence.forget(row.pk)
        row.save()
        judging.tell([row.pk])
        if changed:
            audit.record(
                actor, "instance.register", f"instance:{agent_id}/{instance_id}", namespace=namespace,
                before=before, after=_described(row), ip=ip, now=now,
            )  # fmt: skip
        if changed or moved:
            came_from = InstanceState.OFFLINE if moved else row.state
            changes.touch(namespace, [news_of("instance.registered" if new else "", agent_id, row, came_from, now)])
    return row, new


def leave(namespace: str, agent_id: str, instance_id: str, *, actor: str, now: datetime, ip: str = "") -> None:
    """Take an instance out at once, for good; running tasks may finish. Raises NotFound."""
    with transaction.atomic():
        agent = _agent(namespace, agent_id)
        row = Instance.objects.select_for_update(no_key=True).filter(agent=agent, instance_id=instance_id).first()
        if row is None:
            raise NotFound
        if row.left_at is None:
            before = _standing(row)
            retire(row, "it left", now)
            name = f"instance:{agent_id}/{instance_id}"
            audit.record(
                actor, "instance.leave", name, namespace=namespace, before=before, after=_standing(row), ip=ip, now=now
            )  # fmt: skip
            changes.touch(namespace, [news_of("instance.left", agent_id, row, row.state, now)])


def retire(row: Instance, reason: str, now: datetime) -> None:
    """Mark a locked instance as gone, within the caller's transaction."""
    row.left_at = now
    row.draining = True
    set_state(row, InstanceState.OFFLINE, reason, now)
    row.save()
    judging.tell([row.pk])


def keep_implicit(agent: Agent, now: datetime) -> None:
    """Let the manifest's endpoints (or the platform's own functions) stand for an instance `default` while no other is
    registered."""
    endpoints = agent.manifest["spec"].get("endpoints") or {}
    registered = agent.instances.filter(implicit=False, left_at=None).exists()
    if registered or not (endpoints.get("invoke") or "function" in (agent.manifest["spec"].get("channels") or ())):
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


def news_of(event: str, agent_id: str, row: Instance, before: str, now: datetime) -> news.News:
    """What watchers hear: the event, else the move of its state, else that something about it changed."""
    if not event and before != row.state:
        return news.of_state(agent_id, row, before, now)
    return news.of_instance(event or "instance.changed", agent_id, row, now)


def set_state(row: Instance, state: str, reason: str, now: datetime) -> bool:
    """Move a locked row and write the move down; False when it is there already."""
    if state == row.state:
        return False
    _write_change(row, row.state, state, reason, now)
    row.state, row.state_since, row.reason = state, now, reason
    return True


def _write_change(row: Instance, old: str, new: str, reason: str, now: datetime) -> None:
    change = StateChange.objects.create(instance=row, at=now, from_state=old, to_state=new, reason=reason)
    hook_events.fire_changes([change], now)


def _standing(row: Instance) -> dict[str, Any]:
    return {"state": str(row.state), "draining": row.draining, "present": row.left_at is None}


def _described(row: Instance) -> dict[str, Any]:
    return {key: getattr(row, column) for key, column in FIELDS.items() if getattr(row, column) not in (None, "", {})}

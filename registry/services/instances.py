"""Instances: registered, heard, draining, lost, gone. Every move of a state is written down with its reason."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from common.clock import parse_time, rfc3339
from common.errors import Invalid, NotFound
from registry.addresses import HTTP, INVOKE, wrong_address
from registry.health import LOST_AFTER, Evidence, complaint_of, health_factor, next_state
from registry.models import Agent, Instance, StateChange
from registry.services import audit, changes
from registry.states import InstanceState

WRITE_EVERY = timedelta(seconds=5)
WRITTEN_AT_ONCE = ("goodSince", "status", "components")
FORGOTTEN_AFTER = timedelta(days=1)
SWEEP_AT_ONCE = 500
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
        moved = _set_state(row, *_next(row, now, heard_at=now), now)
        row.save()
        if changed:
            audit.record(
                actor, "instance.register", f"instance:{agent_id}/{instance_id}", namespace=namespace,
                after=_described(row), ip=ip, now=now,
            )  # fmt: skip
        if changed or moved:
            changes.touch(namespace)
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
            changes.touch(namespace)


def heartbeat(namespace: str, agent_id: str, instance_id: str, body: dict[str, Any], *, now: datetime) -> Heard:
    """Hear an instance. Writes only what changed, and that it was heard every five seconds. Raises NotFound."""
    row = _present(namespace, agent_id, instance_id)
    if row is None:
        if not Agent.objects.filter(namespace=namespace, agent_id=agent_id, deleted_at=None).exists():
            raise NotFound
        return Heard(InstanceState.OFFLINE, 0.0, registered=False)
    before = row.heartbeat or {}
    if not _says_something_new(row, body) and _hear(row, body, now)[0] == row.state:
        heard = row.heartbeat or {}
        silent = row.last_heard_at is None or now - row.last_heard_at >= WRITE_EVERY
        if silent or any(before.get(key) != heard.get(key) for key in WRITTEN_AT_ONCE):
            row.last_heard_at = now
            row.save(update_fields=["heartbeat", "last_heard_at"])
        return _heard(row)
    return _hear_news(namespace, row.pk, body, now)


def check_heartbeats(now: datetime) -> int:
    """Take out what was not heard for 30 s; forget what left a day ago. Returns how many were lost."""
    lost = 0
    late = Instance.objects.filter(
        implicit=False, left_at=None, last_heard_at__lte=now - LOST_AFTER, agent__deleted_at=None
    ).exclude(state=InstanceState.OFFLINE)
    for instance_pk in late.order_by("id").values_list("pk", flat=True)[:SWEEP_AT_ONCE]:
        lost += _check_one(instance_pk, now)
    Instance.objects.filter(left_at__lt=now - FORGOTTEN_AFTER).delete()
    return lost


def retire(row: Instance, reason: str, now: datetime) -> None:
    """Mark a locked instance as gone, within the caller's transaction."""
    row.left_at = now
    row.draining = True
    _set_state(row, InstanceState.OFFLINE, reason, now)
    row.save()


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


def _hear_news(namespace: str, instance_pk: int, body: dict[str, Any], now: datetime) -> Heard:
    """A heartbeat that moves the state or that routing must know of."""
    with transaction.atomic():
        row = Instance.objects.select_for_update(no_key=True).filter(pk=instance_pk, left_at=None).first()
        if row is None:
            return Heard(InstanceState.OFFLINE, 0.0, registered=False)
        reroute = _says_something_new(row, body)
        moved = _set_state(row, *_hear(row, body, now), now)
        row.draining = body.get("status") == "draining"
        row.weight_percent = body.get("weightPercent", row.weight_percent)
        row.last_heard_at = now
        row.save()
        if moved or reroute:
            changes.touch(namespace)
    return _heard(row)


def _start(row: Instance, now: datetime) -> None:
    """Begin a registration: a new row, or one that left and comes back."""
    from_state = row.state if row.pk else ""
    row.state, row.state_since, row.reason = InstanceState.NEW, now, "registered"
    row.registered_at, row.left_at, row.last_heard_at = now, None, None
    row.draining, row.weight_percent, row.heartbeat = False, 100, None
    row.save()
    if from_state != row.state:
        StateChange.objects.create(instance=row, at=now, from_state=from_state, to_state=row.state, reason=row.reason)


def _agent(namespace: str, agent_id: str) -> Agent:
    rows = Agent.objects.select_for_update(no_key=True).filter(namespace=namespace, agent_id=agent_id, deleted_at=None)
    agent = rows.first()
    if agent is None:
        raise NotFound
    return agent


def _present(namespace: str, agent_id: str, instance_id: str) -> Instance | None:
    rows = Instance.objects.filter(agent__namespace=namespace, agent__agent_id=agent_id, agent__deleted_at=None)
    return rows.filter(instance_id=instance_id, left_at=None, implicit=False).first()


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


def _says_something_new(row: Instance, body: dict[str, Any]) -> bool:
    """Whether routing must hear of this heartbeat: draining, or another share of its weight."""
    draining, percent = body.get("status") == "draining", body.get("weightPercent", row.weight_percent)
    return (row.draining, row.weight_percent) != (draining, percent)


def _hear(row: Instance, body: dict[str, Any], now: datetime) -> tuple[str, str]:
    """Take what a heartbeat says into the row; returns the state that follows and why, without moving there."""
    complaint = complaint_of(body)
    since = (row.heartbeat or {}).get("goodSince")
    row.heartbeat = {**body, "goodSince": None if complaint else since or rfc3339(now)}
    return _next(row, now, heard_at=now, complaint=complaint)


def _next(row: Instance, now: datetime, *, heard_at: datetime | None, complaint: str = "") -> tuple[str, str]:
    good_since = (row.heartbeat or {}).get("goodSince")
    evidence = Evidence(
        state=row.state,
        state_since=row.state_since,
        last_heard_at=heard_at,
        good_since=parse_time(good_since) if good_since else None,
        complaint=complaint or complaint_of(row.heartbeat or {}),
        left=row.left_at is not None,
        listens=not row.implicit,
    )
    return next_state(evidence, now)


def _set_state(row: Instance, state: str, reason: str, now: datetime) -> bool:
    """Move a locked row and write the move down; False when it is there already."""
    if state == row.state:
        return False
    StateChange.objects.create(instance=row, at=now, from_state=row.state, to_state=state, reason=reason)
    row.state, row.state_since, row.reason = state, now, reason
    return True


def _check_one(instance_pk: int, now: datetime) -> bool:
    with transaction.atomic():
        rows = Instance.objects.select_for_update(no_key=True, of=("self",), skip_locked=True).select_related("agent")
        row = rows.filter(pk=instance_pk, left_at=None).first()
        if row is None or not _set_state(row, *_next(row, now, heard_at=row.last_heard_at), now):
            return False
        row.save()
        changes.touch(row.agent.namespace_id)
    return True


def _heard(row: Instance) -> Heard:
    return Heard(row.state, health_factor(row.state, row.heartbeat), registered=True)


def _described(row: Instance) -> dict[str, Any]:
    return {key: getattr(row, column) for key, column in FIELDS.items() if getattr(row, column) not in (None, "", {})}

"""What fires hooks: firings are written within the transaction of the change, so neither is there without the other.

Telling is for `services.firings`.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from common.clock import rfc3339
from common.database import hot_cursor
from registry.hooks.crossings import Limits, crossings
from registry.hooks.messages import ALERT, RESOURCE, STATE, body_of
from registry.models import HookFiring, Instance, StateChange

# KEY SHARE: whoever removes a hook waits for this transaction, so that its firings always have a hook.
_LISTENING = """
SELECT h.id, {columns} FROM {changed} JOIN registry_agent a ON a.id = i.agent_id JOIN registry_hook h
  ON h.namespace = a.namespace AND (h.agent_id IS NULL OR h.agent_id = a.id)
WHERE {which} AND h.stopped_at IS NULL AND h.events @> %(event)s::jsonb
ORDER BY h.id FOR KEY SHARE OF h"""
_INSTANCE = "a.namespace, a.agent_id, i.instance_id, a.maintenance, i.draining"
_OF_CHANGES = _LISTENING.format(
    columns=f"{_INSTANCE}, c.id, c.at, c.from_state, c.to_state, c.reason",
    changed="registry_statechange c JOIN registry_instance i ON i.id = c.instance_id",
    which="c.id = ANY(%(changes)s::bigint[])",
)
_OF_INSTANCE = _LISTENING.format(columns=_INSTANCE, changed="registry_instance i", which="i.id = %(instance)s")
_OF_NAMESPACE = """
SELECT h.id FROM registry_hook h LEFT JOIN registry_agent a ON a.id = h.agent_id
WHERE h.namespace = %(namespace)s AND (h.agent_id IS NULL OR a.agent_id = %(agent)s)
  AND h.stopped_at IS NULL AND h.events @> %(event)s::jsonb
ORDER BY h.id FOR KEY SHARE OF h"""


def fire_changes(written: Sequence[StateChange], now: datetime) -> int:
    """Write what hooks have to tell of state changes that were just written; returns how many firings."""
    found = _ask(_OF_CHANGES, {"changes": [change.pk for change in written], "event": f'["{STATE}"]'})
    return _write([_Changed(*row).firing(now) for row in found])


def fire_crossings(row: Instance, said: Mapping[str, Any], limits: Limits, now: datetime) -> int:
    """The same for resources that cross a threshold with the heartbeat `said`; `row`, locked, has the one before."""
    crossed = crossings(row.heartbeat, said, limits)
    if not crossed:
        return 0
    found = _ask(_OF_INSTANCE, {"instance": row.pk, "event": f'["{RESOURCE}"]'})
    new = []
    for hook, namespace, agent_id, instance_id, maintenance, draining in found:
        fields = {"instanceId": instance_id, "maintenance": maintenance, "draining": draining}
        for one in crossed:
            about = f"resource:{row.pk}:{now.timestamp()}:{one.resource}"
            new.append(firing_of(hook, RESOURCE, about, namespace, agent_id, {**fields, **one._asdict()}, now))
    return _write(new)


def fire_alert(namespace: str, alert_id: str, fields: Mapping[str, Any], *, agent_id: str | None, now: datetime) -> int:
    """The same for an alert, of an agent or of the namespace; told once for each `alert_id` (up to 200 characters)."""
    found = _ask(_OF_NAMESPACE, {"namespace": namespace, "agent": agent_id, "event": f'["{ALERT}"]'})
    about, said = f"alert:{alert_id}", {**fields, "alertId": alert_id}
    return _write([firing_of(hook, ALERT, about, namespace, agent_id or "", said, now) for (hook,) in found])


def _ask(query: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    if not connection.in_atomic_block:
        raise RuntimeError("hooks are fired in the transaction of the change")
    with hot_cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


class _Changed(NamedTuple):
    hook: uuid.UUID
    namespace: str
    agent_id: str
    instance_id: str
    maintenance: bool
    draining: bool
    change: int
    at: datetime
    from_state: str
    to_state: str
    reason: str

    def firing(self, now: datetime) -> HookFiring:
        fields = {
            "instanceId": self.instance_id,
            "fromState": self.from_state or None,
            "toState": self.to_state,
            "reason": self.reason,
            "changedAt": rfc3339(self.at),
            "maintenance": self.maintenance,
            "draining": self.draining,
        }
        return firing_of(self.hook, STATE, f"change:{self.change}", self.namespace, self.agent_id, fields, now)


def firing_of(
    hook: uuid.UUID, event: str, about: str, namespace: str, agent_id: str, fields: Mapping[str, Any], now: datetime
) -> HookFiring:
    """A row that is due at once; `about` names what happened."""
    body = body_of(event, now, namespace, agent_id or None, fields)
    return HookFiring(
        hook_id=hook, event=event, about=about, agent_id=agent_id, body=body, due_at=now, created_at=now
    )  # fmt: skip


def _write(new: Sequence[HookFiring]) -> int:
    HookFiring.objects.bulk_create(new, ignore_conflicts=True)
    return len(new)

"""Alerts come and go with the troubles that are found; each is told once."""

import datetime as dt
import logging
from collections.abc import Iterable
from uuid import UUID

from django.db import DatabaseError, transaction

from common.clock import rfc3339
from common.errors import NotFound
from common.redis import RedisAway
from insight.alerts.conditions import CONDITIONS, Condition, Trouble
from insight.alerts.words import message_of
from insight.models import Alert
from registry.services import audit, hook_events

log = logging.getLogger(__name__)

QUIET = dt.timedelta(minutes=15)  # what comes back within it is the same trouble, and is not told again
KEPT = dt.timedelta(days=90)


def watch(now: dt.datetime, conditions: Iterable[Condition] = CONDITIONS) -> int:
    """Look for troubles; raise, renew and end alerts accordingly. Returns how many are open.

    A condition that cannot be looked at leaves its alerts as they are.
    """
    found: dict[tuple[str, str, str], Trouble] = {}
    looked: set[str] = set()
    for condition in conditions:
        try:
            found.update({one.key: one for one in condition.find(now)})
            looked |= condition.kinds
        except (DatabaseError, RedisAway):
            log.exception("a condition could not be looked at", extra={"event": "alerts.condition"})
    with transaction.atomic():
        kept = {_key(row): row for row in Alert.objects.select_for_update().filter(ended_at=None)}
        for key, trouble in found.items():
            _renew(kept[key], trouble, now) if key in kept else _raise(trouble, now)
        over = [row.pk for key, row in kept.items() if key not in found and row.kind in looked]
        Alert.objects.filter(pk__in=over).update(ended_at=now)
        Alert.objects.filter(ended_at__lt=now - KEPT).delete()
    return len(kept) - len(over) + len(found.keys() - kept.keys())


def acknowledge(
    alert_id: UUID, namespaces: Iterable[str] | None, *, actor: str, now: dt.datetime, ip: str = ""
) -> Alert:
    """Have it known that somebody looks after it; the first one stays. Raises NotFound."""
    with transaction.atomic():
        rows = Alert.objects.select_for_update().filter(pk=alert_id)
        row = (rows if namespaces is None else rows.filter(namespace__in=list(namespaces))).first()
        if row is None:
            raise NotFound
        if row.acked_at is None:
            row.acked_at, row.acked_by = now, actor
            row.save(update_fields=["acked_at", "acked_by"])
            audit.record(actor, "alert.ack", f"alert:{row.pk}", namespace=row.namespace, ip=ip, now=now,
                         after={"kind": row.kind, "subject": row.subject})  # fmt: skip
    return row


def _key(row: Alert) -> tuple[str, str, str]:
    return row.namespace, row.kind, row.subject


def _renew(row: Alert, trouble: Trouble, now: dt.datetime) -> None:
    row.details, row.severity, row.seen_at = trouble.details, trouble.severity, now
    row.save(update_fields=["details", "severity", "seen_at"])


def _raise(trouble: Trouble, now: dt.datetime) -> None:
    again = Alert.objects.filter(
        namespace=trouble.namespace, kind=trouble.kind, subject=trouble.subject, ended_at__gte=now - QUIET
    ).order_by("-ended_at")
    if row := again.first():
        row.ended_at, row.count = None, row.count + 1
        row.save(update_fields=["ended_at", "count"])
        _renew(row, trouble, now)
        return
    row = Alert.objects.create(
        namespace=trouble.namespace, kind=trouble.kind, severity=trouble.severity, subject=trouble.subject,
        agent_id=trouble.agent_id, details=trouble.details, raised_at=now, seen_at=now,
    )  # fmt: skip
    said = {"kind": row.kind, "severity": row.severity, "subject": row.subject, "raisedAt": rfc3339(now),
            "message": message_of(row).en, "details": row.details}  # fmt: skip
    hook_events.fire_alert(row.namespace, str(row.pk), said, agent_id=row.agent_id or None, now=now)

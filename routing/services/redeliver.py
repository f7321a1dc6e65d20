"""Telling the caller again, at a person's wish."""

import datetime as dt
import uuid

from django.db import transaction

from callbacks import services as callbacks
from callbacks.models import Callback
from common.errors import NotFound
from registry.services import audit
from routing.models import Task


def redeliver(task_id: uuid.UUID, actor: str, now: dt.datetime, *, ip: str = "") -> None:
    """Begin the schedule of the task's last callback anew, with the same webhook-id.

    Raises NotFound, and StateConflict when there is none or it is still being delivered.
    """
    with transaction.atomic():
        row = Task.objects.filter(id=task_id).values_list("namespace", "callback_id").first()
        if row is None:
            raise NotFound
        namespace, callback_id = row
        found = Callback.objects.select_for_update().filter(id=callback_id).first() if callback_id else None
        changed = {"before": {"callback": found and found.state}, "after": {"callback": "PENDING"}}
        callbacks.redeliver(callback_id, now)
        audit.record(
            actor, "task.callback.redeliver", f"task:{task_id}", namespace=namespace, **changed, ip=ip, now=now
        )


def redeliver_many(
    namespace: str,
    actor: str,
    now: dt.datetime,
    *,
    client: str | None = None,
    state: str = "DEAD",
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    ip: str = "",
) -> int:
    """Begin anew what receivers missed, of tasks made in that time; returns how many callbacks it concerns."""
    with transaction.atomic():
        ids = callbacks.redeliver_matching(namespace, client=client, state=state, since=since, until=until, now=now)
        after = {"client": client, "state": state, "from": since, "to": until, "count": len(ids)}
        after = {name: str(value) if isinstance(value, dt.datetime) else value for name, value in after.items()}
        object = f"namespace:{namespace}"
        audit.record(actor, "callback.redeliver", object, namespace=namespace, after=after, ip=ip, now=now)
    return len(ids)

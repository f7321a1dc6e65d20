"""Telling the caller again, at a person's wish."""

import datetime as dt
import uuid

from django.db import transaction

from callbacks import services as callbacks
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
        callbacks.redeliver(callback_id, now)
        audit.record(actor, "task.callback.redeliver", f"task:{task_id}", namespace=namespace, ip=ip, now=now)

"""Retry, cancel or redeliver everything that a filter finds: counted first, worked off in pages, seen while it runs."""

import datetime as dt
import logging
import uuid
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from callbacks.models import Callback, CallbackState
from common.clock import parse_time
from common.errors import NotFound, NotReady, StateConflict
from common.ids import floor_id
from insight.models import Bulk
from registry.services import audit
from routing.models import Attempt, Task
from routing.services import cancel, redeliver, retry
from routing.states import OPEN, TaskState

log = logging.getLogger(__name__)

MOST = 100_000  # tasks that one bulk action counts and touches
PER_RUN = 100  # tasks of each bulk action in one run; a run every two seconds makes 50 a second
LEASE = dt.timedelta(seconds=60)
AT_ONCE = 5  # bulk actions that one run takes up

_ACTIONS: dict[str, Callable[..., None]] = {
    Bulk.Action.RETRY: retry.retry,
    Bulk.Action.CANCEL: cancel.cancel,
    Bulk.Action.REDELIVER: redeliver.redeliver,
}
_COLUMNS = {
    "ability": "ability", "client": "client", "correlationId": "correlation_id", "traceId": "trace_id",
    "errorCode": "error_code",
}  # fmt: skip


def create(
    namespace: str,
    client: str | None,
    action: str,
    filter: dict[str, Any],
    *,
    dry_run: bool,
    actor: str,
    now: dt.datetime,
    ip: str = "",
) -> Bulk:
    """Count what the action would touch, and begin it unless it is a dry run.

    `client` limits it to that client's tasks. Tasks that are accepted later are not touched.
    """
    row = Bulk(namespace=namespace, client=client, action=action, filter=filter, actor=actor, ip=ip, created_at=now)
    row.count = tasks_of(row)[:MOST].count()
    row.state = Bulk.State.PREVIEW if dry_run else Bulk.State.RUNNING if row.count else Bulk.State.DONE
    row.ended_at = None if row.state == Bulk.State.RUNNING else now
    with transaction.atomic():
        row.save(force_insert=True)
        if not dry_run:
            after = {"action": action, "filter": filter, "count": row.count}
            audit.record(actor, "bulk.create", f"bulk:{row.pk}", namespace=namespace, after=after, ip=ip, now=now)
    return row


def stop(namespace: str, client: str | None, bulk_id: uuid.UUID, *, actor: str, now: dt.datetime, ip: str = "") -> Bulk:
    """Touch no further task. Raises NotFound, and StateConflict when it has ended."""
    with transaction.atomic():
        row = owned(namespace, client).select_for_update().filter(pk=bulk_id).first()
        if row is None:
            raise NotFound
        if row.state != Bulk.State.RUNNING:
            raise StateConflict(f"it is {row.state}")
        row.state, row.ended_at = Bulk.State.STOPPED, now
        row.save(update_fields=["state", "ended_at"])
        after = {"done": row.done, "skipped": row.skipped}
        audit.record(actor, "bulk.stop", f"bulk:{bulk_id}", namespace=namespace, after=after, ip=ip, now=now)
    return row


def owned(namespace: str, client: str | None) -> QuerySet[Bulk]:
    """The bulk actions that may be looked at: a client's own, or all of the namespace."""
    rows = Bulk.objects.filter(namespace=namespace)
    return rows if client is None else rows.filter(client=client)


def work(now: dt.datetime) -> int:
    """Go on with what is running, a page each; returns how many tasks had their turn."""
    running = Bulk.objects.filter(Q(leased_until=None) | Q(leased_until__lt=now), state=Bulk.State.RUNNING)
    return sum(_work_on(pk, now) for pk in running.order_by("id").values_list("pk", flat=True)[:AT_ONCE])


def tasks_of(row: Bulk) -> QuerySet[Task]:
    """The tasks that the filter finds and that the action makes sense for, in the order of their ids."""
    given = row.filter
    tasks = Task.objects.filter(namespace=row.namespace, id__lt=floor_id(row.created_at))
    tasks = tasks.filter(**{column: given[name] for name, column in _COLUMNS.items() if name in given})
    if row.client is not None:
        tasks = tasks.filter(client=row.client)
    if "state" in given:
        column = "state" if given["state"] in OPEN else "outcome"
        tasks = tasks.filter(**{column: given["state"]})
    if "taskIds" in given:
        tasks = tasks.filter(id__in=given["taskIds"])
    if "createdAfter" in given:
        tasks = tasks.filter(id__gte=floor_id(parse_time(given["createdAfter"])))
    if "createdBefore" in given:
        tasks = tasks.filter(id__lt=floor_id(parse_time(given["createdBefore"])))
    if "agentId" in given:
        tasks = tasks.filter(Exists(Attempt.objects.filter(task_id=OuterRef("id"), agent_id=given["agentId"])))
    return _sensible(row.action, given, tasks).order_by("id")


def _sensible(action: str, given: dict[str, Any], tasks: QuerySet[Task]) -> QuerySet[Task]:
    if action == Bulk.Action.CANCEL:
        return tasks.filter(outcome=None)
    if action == Bulk.Action.RETRY:
        return tasks.filter(outcome__in=[TaskState.FAILED, TaskState.TIMEOUT, TaskState.CANCELLED])
    state = given.get("callbackState", CallbackState.DEAD)
    return tasks.filter(Exists(Callback.objects.filter(id=OuterRef("callback_id"), state=state)))


def _work_on(pk: uuid.UUID, now: dt.datetime) -> int:
    free = Bulk.objects.filter(Q(leased_until=None) | Q(leased_until__lt=now), pk=pk, state=Bulk.State.RUNNING)
    if not free.update(leased_until=now + LEASE):
        return 0
    row = Bulk.objects.get(pk=pk)
    left = row.count - row.done - row.skipped
    rest = tasks_of(row) if row.cursor is None else tasks_of(row).filter(id__gt=row.cursor)
    ids = list(rest.values_list("id", flat=True)[: min(PER_RUN, left)])
    for task_id in ids:
        # Before the task is touched: a worker that dies over it leaves it out rather than touching it twice.
        if not _note(row, cursor=task_id):
            break  # it was stopped
        if _touch(row, task_id, now):
            row.done += 1
        else:
            row.skipped += 1
    over = len(ids) < PER_RUN or row.done + row.skipped >= row.count
    _note(row, leased_until=None, **({"state": Bulk.State.DONE, "ended_at": now} if over else {}))
    return len(ids)


def _note(row: Bulk, **fields: Any) -> bool:
    """Write down how far it is; False when it runs no more."""
    running = Bulk.objects.filter(pk=row.pk, state=Bulk.State.RUNNING)
    return running.update(done=row.done, skipped=row.skipped, **fields) == 1


def _touch(row: Bulk, task_id: uuid.UUID, now: dt.datetime) -> bool:
    """Whether it was done; what has moved on meanwhile is left alone."""
    try:
        _ACTIONS[row.action](task_id, row.actor, now, ip=row.ip)
    except (StateConflict, NotFound, NotReady) as error:
        log.info("left alone: %s", error, extra={"taskId": str(task_id), "event": "bulk.skipped"})
        return False
    return True

"""What callers were told, by state: the newest callbacks, and those that their receivers never took."""

import datetime as dt
import uuid
from dataclasses import dataclass

from django.db.models import Count, Exists, Func, OuterRef, QuerySet, Value

from callbacks.models import Callback, CallbackState, Delivery
from common.encoding import clean_text
from common.ids import parse_id
from insight.access import Viewer
from routing.models import Task

PAGE = 50
COUNTED = 10_000  # of the newest, so that counting costs the same in a large table
SHOWN_ANSWER = 300
STATES = (CallbackState.PENDING, CallbackState.DELIVERED, CallbackState.DEAD)


@dataclass(frozen=True, slots=True)
class Row:
    """A callback with its last try, if there was one, and the task that it tells of, if that is still kept."""

    callback: Callback
    task: Task | None
    at: dt.datetime | None
    status: int | None
    answer: str

    @property
    def next_at(self) -> dt.datetime | None:
        return self.callback.due_at if self.callback.state == CallbackState.PENDING else None

    @property
    def redeliverable(self) -> bool:
        """Only the newest of a task, and only once it is no longer on its way."""
        ended = self.callback.state in (CallbackState.DELIVERED, CallbackState.DEAD)
        return ended and self.task is not None and self.task.callback_id == self.callback.id


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first; `older` is the cursor of the next page."""

    rows: list[Row]
    older: str | None


def visible(viewer: Viewer, namespace: str = "", client: str = "") -> QuerySet[Callback]:
    """Those that the person may see: of their namespaces, owners' of their agents' tasks."""
    rows = Callback.objects.all()
    if viewer.agents is not None:
        rows = rows.filter(Exists(viewer.tasks().filter(id=OuterRef("subject_id"))))
    elif viewer.namespaces is not None:
        rows = rows.filter(namespace__in=viewer.namespaces)
    given = {name: value for name, value in (("namespace", namespace), ("client", client)) if value}
    return rows.filter(**given)


def page(rows: QuerySet[Callback], state: str, before: str | None) -> Page:
    """One page of those in a state (empty = all); three queries."""
    if state == CallbackState.PENDING:
        # Found by the index of what is due, since the few that wait are rare among the many that do not.
        waiting = Callback.objects.filter(state=state).order_by("due_at").values("id")[:COUNTED]
        rows = rows.filter(id__in=waiting)
    rows = rows.filter(state=state) if state else rows
    if (last := parse_id(before)) is not None:
        rows = rows.filter(id__lt=last)
    found = list(rows.defer("body", "auth_token").order_by("-id")[: PAGE + 1])
    return Page(_rows(found[:PAGE]), str(found[PAGE - 1].id) if len(found) > PAGE else None)


def counts(rows: QuerySet[Callback]) -> dict[str, int]:
    """By state among the newest COUNTED."""
    newest = rows.order_by("-id").values("id")[:COUNTED]
    found = Callback.objects.filter(id__in=newest).values_list("state").annotate(n=Count("id")).order_by()
    return dict.fromkeys(CallbackState.values, 0) | dict(found)


def _rows(callbacks: list[Callback]) -> list[Row]:
    tasks = Task.objects.in_bulk([callback.subject_id for callback in callbacks])
    beginning = Func(
        "answer", Value(1), Value(SHOWN_ANSWER), function="substr", output_field=Delivery._meta.get_field("answer")
    )
    tries = Delivery.objects.filter(callback_id__in=[callback.id for callback in callbacks]).order_by("number")
    last: dict[uuid.UUID, tuple[dt.datetime, int | None, bytes | None]] = {
        id: (at, status, answer)
        for id, at, status, answer in tries.values_list("callback_id", "at", "status", beginning)
    }
    rows = []
    for callback in callbacks:
        at, status, answer = last.get(callback.id, (None, None, None))
        text = clean_text(bytes(answer or b"").decode("utf-8", "replace"), SHOWN_ANSWER)
        rows.append(Row(callback, tasks.get(callback.subject_id), at, status, text))
    return rows

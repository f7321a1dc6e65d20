"""What callers were told, by state: the newest callbacks, and those that their receivers never took."""

import datetime as dt
import uuid
from collections import Counter
from dataclasses import dataclass

from django.db import connection
from django.db.models import Exists, Func, OuterRef, QuerySet, Value

from callbacks.models import Callback, CallbackState, Delivery
from common.encoding import clean_text
from common.ids import parse_id
from insight import newest
from insight.access import Viewer
from insight.filters import Filter
from routing.models import Task

PAGE = 50
COUNTED = 2_000  # of the newest, so that counting costs the same in a large table
SHOWN_ANSWER = 300
_LOWER = (1 << 80) - 1  # the bits of an id below its milliseconds
_OF_TASKS = """
SELECT c.id, c.state FROM unnest(%(ids)s::uuid[]) t(id) CROSS JOIN LATERAL (
  SELECT c.id, c.state FROM callbacks_callback c
  WHERE c.subject_id = t.id AND c.id >= (left(t.id::text, 13) || '-0000-0000-000000000000')::uuid
    AND c.id <= (left(t.id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid) c"""
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


class Told:
    """The callbacks that a person may see, of a namespace or a client if one is named.

    Callbacks have no index by namespace. Who sees all reads them from their end; for everybody else they are those of
    the newest tasks, whose ids' milliseconds theirs carry.
    """

    def __init__(self, viewer: Viewer, asked: Filter, now: dt.datetime):
        self.viewer, self.now = viewer, now
        self.asked = Filter(namespace=asked.namespace, client=asked.client)
        self._newest = viewer.agents is not None or viewer.namespaces is not None or self.asked != Filter()

    def page(self, state: str, before: str | None) -> Page:
        """One page of those in a state (empty = all)."""
        last = parse_id(before)
        if state == CallbackState.PENDING:
            # Found by the index of what is due, since the few that wait are rare among the many that do not.
            due = Callback.objects.filter(state=state).order_by("due_at").values("id")[:COUNTED]
            return _page(self._visible().filter(id__in=due), last)
        if self._newest and not (state == CallbackState.DEAD and self.viewer.agents is None):
            return self._page_of_newest(state, last)
        return _page(self._visible().filter(**({"state": state} if state else {})), last)

    def counts(self) -> dict[str, int]:
        """By state among the newest COUNTED, or those of as many tasks."""
        if self._newest:
            found = Counter(row_state for _, row_state in _of_tasks(self._tasks(None)))
        else:
            found = Counter(Callback.objects.order_by("-id").values_list("state", flat=True)[:COUNTED])
        return dict.fromkeys(CallbackState.values, 0) | found

    def _page_of_newest(self, state: str, last: uuid.UUID | None) -> Page:
        """A page may be short, and the next one go on with the millisecond of the last task that was looked at."""
        tasks = self._tasks(last)
        edge = _at(tasks[-1], _LOWER) if len(tasks) == COUNTED else None
        ids = [
            id
            for id, known in _of_tasks(tasks)
            if (last is None or id < last) and (edge is None or id > edge) and state in ("", known)
        ]
        found = _page(Callback.objects.filter(id__in=sorted(ids, reverse=True)[: PAGE + 1]), None)
        return Page(found.rows, str(edge)) if edge and found.older is None else found

    def _tasks(self, last: uuid.UUID | None) -> list[uuid.UUID]:
        """Ids of the newest tasks; with `last`, of those whose callbacks may stand behind that one."""
        return newest.ids(self.viewer, self.asked, self.now, COUNTED, last and _at(last, _LOWER))

    def _visible(self) -> QuerySet[Callback]:
        rows, viewer = Callback.objects.all(), self.viewer
        if viewer.agents is not None:
            rows = rows.filter(Exists(viewer.tasks().filter(id=OuterRef("subject_id"))))
        elif viewer.namespaces is not None:
            rows = rows.filter(namespace__in=viewer.namespaces)
        return rows.filter(**dict(self.asked.set()))


def _page(rows: QuerySet[Callback], last: uuid.UUID | None) -> Page:
    rows = rows.filter(id__lt=last) if last else rows
    found = list(rows.defer("body", "auth_token").order_by("-id")[: PAGE + 1])
    return Page(_rows(found[:PAGE]), str(found[PAGE - 1].id) if len(found) > PAGE else None)


def _at(id: uuid.UUID, rest: int) -> uuid.UUID:
    """The id of the same millisecond with these bits below."""
    return uuid.UUID(int=id.int & ~_LOWER | rest)


def _of_tasks(ids: list[uuid.UUID]) -> list[tuple[uuid.UUID, str]]:
    """(id, state) of the callbacks that tell of these tasks."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_TASKS, {"ids": ids})
        return list(cursor.fetchall())


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

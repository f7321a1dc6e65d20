"""Finding tasks: one box for every kind of id, name and word, and pages that stay put while rows arrive."""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from common.ids import parse_id
from insight import newest
from insight.access import Viewer
from insight.filters import Filter
from registry.models import Agent
from routing.models import Idempotency, Task
from routing.states import TaskError, TaskState

PAGE = 50
COUNTED = 2_000  # tasks that state counts look at, the newest, so that their cost has a bound
FAILED = 10_000  # failed tasks among whose messages words are looked for, the newest
_IDS = 500


@dataclass(frozen=True, slots=True)
class Found:
    """What a search box and a filter ask for together.

    `tasks`, when the box named them by an id or by words; else `asked`, the filter with what the box says in it.
    `by_id`: named by an id, `trace` when that was a traceId. `bulk` is the box as a bulk action's filter; None when a
    bulk action cannot look for that.
    """

    asked: Filter
    tasks: QuerySet[Task] | None = None
    by_id: bool = False
    trace: bool = False
    bulk: dict[str, Any] | None = None

    def page(self, viewer: Viewer, now: dt.datetime, before: str | None = None) -> "Page":
        """One page of them; `before` is a cursor as given out (anything else is the first page)."""
        last = parse_id(before)
        if self.tasks is None:
            ids = newest.ids(viewer, self.asked, now, PAGE + 1, last)
            rows = sorted(Task.objects.filter(id__in=ids), key=lambda task: task.id, reverse=True)
        else:
            tasks = self.asked.in_state(self.tasks)
            rows = list((tasks.filter(id__lt=last) if last else tasks).order_by("-id")[: PAGE + 1])
        return Page(rows[:PAGE], str(rows[PAGE - 1].id) if len(rows) > PAGE else None)

    def counts(self, viewer: Viewer, now: dt.datetime) -> dict[str, int]:
        """Tasks by state among the newest COUNTED, whatever states are asked for; every state is named."""
        if self.tasks is None:
            return newest.counts(viewer, self.asked.but(states=()), now, COUNTED)
        found = self.tasks.order_by().values_list("state").annotate(n=Count("id"))
        return dict.fromkeys(TaskState.values, 0) | dict(found)


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first; `older` is the cursor of the next page."""

    tasks: list[Task]
    older: str | None


def find(viewer: Viewer, asked: Filter, now: dt.datetime) -> Found:
    """What the filter asks for, of what its box `q` names: tasks by an id; else those of an agent, of an ability, with
    an error code, or whose error message says so."""
    query = asked.q.strip()
    if not query:
        return Found(asked, bulk={})
    if len(query) > 200 or not query.isprintable():
        return Found(asked, Task.objects.none())
    return _by_id(viewer, asked, query, now) or _by_name(viewer, asked, query, now)


def _by_id(viewer: Viewer, asked: Filter, query: str, now: dt.datetime) -> Found | None:
    ids = list(Idempotency.objects.filter(correlation_id=query).values_list("task_id", flat=True)[:_IDS])
    if (id := parse_id(query)) is not None:
        ids.append(id)
    traced = list(Task.objects.filter(trace_id=query).order_by("-id").values_list("id", flat=True)[:_IDS])
    if not ids and not traced:
        return None
    whole = {"traceId": query} if not ids else {"taskIds": sorted(map(str, {*ids, *traced}))}
    tasks = asked.narrow(viewer.tasks().filter(id__in=[*ids, *traced]), now)
    return Found(asked, tasks, by_id=True, trace=bool(traced), bulk=whole)


def _by_name(viewer: Viewer, asked: Filter, query: str, now: dt.datetime) -> Found:
    if Agent.objects.filter(agent_id=query).exists():
        return _named(asked, agent=query, bulk="agentId")
    if query in TaskError.values:
        return _named(asked, error=query, bulk="errorCode")
    if newest.ids(viewer, Filter(ability=query), now, 1):
        return _named(asked, ability=query, bulk="ability")
    said = newest.failed_with(viewer, query, now, FAILED, _IDS)
    return Found(asked, asked.narrow(viewer.tasks().filter(id__in=said), now))


def _named(asked: Filter, bulk: str, **said: str) -> Found:
    """The filter with what the box says; nothing when a link says something else of the same."""
    [(name, query)] = said.items()
    if getattr(asked, name) not in ("", query):
        return Found(asked, Task.objects.none(), bulk={bulk: query})
    return Found(asked.but(**said), bulk={bulk: query})


def only_id(tasks: QuerySet[Task]) -> uuid.UUID | None:
    """The one task's id, when there is exactly one."""
    ids = list(tasks.order_by("-id").values_list("id", flat=True)[:2])
    return ids[0] if len(ids) == 1 else None

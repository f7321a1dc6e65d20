"""Finding tasks: one box for every kind of id and name, states, and pages that stay put while rows arrive."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from common.ids import parse_id
from insight.access import Viewer
from registry.models import Agent
from routing.models import Attempt, Idempotency, Task
from routing.states import FINAL, TaskState

PAGE = 50
COUNTED = 10_000  # state counts look at this many of the newest tasks, so that their cost has a bound
_IDS = 500


@dataclass(frozen=True, slots=True)
class Found:
    """The tasks that a query names; `by_id` when it named them by an id."""

    tasks: QuerySet[Task]
    by_id: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first; `older` is the cursor of the next page."""

    tasks: list[Task]
    older: str | None


def find(viewer: Viewer, query: str) -> Found:
    """Tasks whose taskId, correlationId or traceId is `query`; when there is none, those of that agent or ability."""
    tasks = viewer.tasks()
    query = query.strip()
    if not query:
        return Found(tasks, False)
    if len(query) > 200 or not query.isprintable():
        return Found(tasks.none(), False)
    ids = list(Idempotency.objects.filter(correlation_id=query).values_list("task_id", flat=True)[:_IDS])
    if (id := parse_id(query)) is not None:
        ids.append(id)
    ids += list(Task.objects.filter(trace_id=query).order_by("-id").values_list("id", flat=True)[:_IDS])
    if ids:
        return Found(tasks.filter(id__in=ids), True)
    spaces = list(Agent.objects.filter(agent_id=query).values_list("namespace_id", flat=True))
    if spaces:
        tried = Attempt.objects.filter(namespace__in=spaces, agent_id=query).order_by("-task_id").values("task_id")
        return Found(tasks.filter(id__in=tried[:COUNTED]), False)
    return Found(tasks.filter(ability=query), False)


def page(tasks: QuerySet[Task], states: Iterable[str] = (), before: str | None = None) -> Page:
    """One page of them; `before` is a cursor as given out (anything else is the first page)."""
    if wanted := [state for state in states if state in TaskState.values]:
        tasks = tasks.filter(state__in=wanted, **({"outcome__in": wanted} if FINAL.issuperset(wanted) else {}))
    if (last := parse_id(before)) is not None:
        tasks = tasks.filter(id__lt=last)
    rows = list(tasks.order_by("-id")[: PAGE + 1])
    return Page(rows[:PAGE], str(rows[PAGE - 1].id) if len(rows) > PAGE else None)


def counts(tasks: QuerySet[Task]) -> dict[str, int]:
    """Tasks by state among the newest COUNTED, every state named."""
    newest = tasks.order_by("-id").values("id", "state")[:COUNTED]
    found = Task.objects.filter(id__in=newest.values("id")).values_list("state").annotate(n=Count("id")).order_by()
    return dict.fromkeys(TaskState.values, 0) | dict(found)


def only_id(tasks: QuerySet[Task]) -> uuid.UUID | None:
    """The one task's id, when there is exactly one."""
    ids = list(tasks.order_by("-id").values_list("id", flat=True)[:2])
    return ids[0] if len(ids) == 1 else None

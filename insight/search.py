"""Finding tasks: one box for every kind of id, name and word, and pages that stay put while rows arrive."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from common.ids import parse_id
from insight.access import Viewer
from registry.models import Agent, Namespace
from routing.models import Attempt, Idempotency, Task
from routing.states import TaskError, TaskState

PAGE = 50
COUNTED = 10_000  # state counts and words look at this many of the newest tasks, so that their cost has a bound
_IDS = 500


@dataclass(frozen=True, slots=True)
class Found:
    """The tasks that a query names; `by_id` when it named them by an id, `trace` when that was a traceId.

    `bulk` is the query as a bulk action's filter; None when a bulk action cannot look for that.
    """

    tasks: QuerySet[Task]
    by_id: bool = False
    trace: bool = False
    bulk: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first; `older` is the cursor of the next page."""

    tasks: list[Task]
    older: str | None


def find(viewer: Viewer, query: str) -> Found:
    """What `query` names: tasks by an id; else those of an agent, of an ability, with an error code, or whose error
    message says so."""
    tasks, query = viewer.tasks(), query.strip()
    if not query:
        return Found(tasks, bulk={})
    if len(query) > 200 or not query.isprintable():
        return Found(tasks.none())
    return _by_id(tasks, query) or _by_name(tasks, query)


def _by_id(tasks: QuerySet[Task], query: str) -> Found | None:
    ids = list(Idempotency.objects.filter(correlation_id=query).values_list("task_id", flat=True)[:_IDS])
    if (id := parse_id(query)) is not None:
        ids.append(id)
    traced = list(Task.objects.filter(trace_id=query).order_by("-id").values_list("id", flat=True)[:_IDS])
    if not ids and not traced:
        return None
    whole = {"traceId": query} if not ids else {"taskIds": sorted(map(str, {*ids, *traced}))}
    return Found(tasks.filter(id__in=[*ids, *traced]), by_id=True, trace=bool(traced), bulk=whole)


def _by_name(tasks: QuerySet[Task], query: str) -> Found:
    spaces = list(Agent.objects.filter(agent_id=query).values_list("namespace_id", flat=True))
    if spaces:
        tried = Attempt.objects.filter(namespace__in=spaces, agent_id=query).order_by("-task_id").values("task_id")
        return Found(tasks.filter(id__in=tried[:COUNTED]), bulk={"agentId": query})
    if query in TaskError.values:
        return Found(tasks.filter(error_code=query), bulk={"errorCode": query})
    # The index begins with the namespace.
    named = tasks.filter(namespace__in=Namespace.objects.values("name"), ability=query)
    if named.exists():
        return Found(tasks.filter(ability=query), bulk={"ability": query})
    failed = tasks.filter(outcome__in=[TaskState.FAILED, TaskState.TIMEOUT]).order_by("-id").values("id")[:COUNTED]
    return Found(tasks.filter(id__in=failed, error_message__icontains=query))


def page(tasks: QuerySet[Task], before: str | None = None) -> Page:
    """One page of them; `before` is a cursor as given out (anything else is the first page)."""
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

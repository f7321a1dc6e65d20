"""Bulk actions: what would be touched, the question, and how far it is."""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from common.clock import now, parse_time, rfc3339
from common.errors import NotFound, StateConflict
from common.ids import parse_id
from insight import catalog, search, versions
from insight.access import Viewer
from insight.console.views import for_viewers
from insight.console.words import bulk_words
from insight.filters import Filter
from insight.models import Bulk
from insight.services import bulk
from registry.models import Audit
from routing.models import Attempt, Task
from routing.states import Certainty

SHOWN, SAMPLE, ENTRIES = 50, 10, 20


@dataclass(frozen=True, slots=True)
class Wish:
    """A bulk action that is thought of: what it would do to which tasks, as they were at `at`."""

    action: str
    namespace: str
    asked: Filter
    filter: dict[str, Any] | None  # None: a bulk action cannot look for that
    at: dt.datetime

    def tasks(self) -> QuerySet[Task]:
        """The tasks that it would touch."""
        row = Bulk(namespace=self.namespace, action=self.action, filter=self.filter or {}, created_at=self.at)
        return bulk.tasks_of(row)


@require_http_methods(["GET", "HEAD", "POST"])
@for_viewers
def new(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The question, with what it would touch; answered with yes, it begins."""
    wish = _wish(viewer, request.POST if request.method == "POST" else request.GET)
    if request.method == "POST" and wish.namespace and wish.filter:
        filter = {"createdBefore": rfc3339(wish.at), **wish.filter}
        row = bulk.create(
            wish.namespace, None, wish.action, filter, dry_run=False, actor=f"user:{viewer.name}", now=now(),
            ip=request.META.get("REMOTE_ADDR", ""),
        )  # fmt: skip
        return redirect("console:bulk", bulk_id=str(row.pk))
    context: dict[str, Any] = {"viewer": viewer, "wish": wish, "at": rfc3339(wish.at), "asked": wish.asked}
    context["query"] = wish.asked.query()
    if not wish.namespace:
        names = catalog.namespaces(viewer)
        context["namespaces"] = [(one, wish.asked.but(namespace=one).query(action=wish.action)) for one in names]
    elif wish.filter:
        context |= _preview(wish)
    return render(request, "console/bulk_new.html", context)


@require_safe
@for_viewers
def browse(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The newest ones of one's namespaces."""
    rows = _visible(viewer).exclude(state=Bulk.State.PREVIEW).order_by("-id")[:SHOWN]
    return render(request, "console/bulks.html", {"viewer": viewer, "rows": list(rows)})


@require_safe
@for_viewers
def page(request: HttpRequest, viewer: Viewer, bulk_id: str) -> HttpResponse:
    """How far it is, live while it runs, and what the audit log says."""
    row = one_of(viewer, bulk_id)
    until = row.ended_at or now()
    entries = Audit.objects.filter(
        Q(actor=row.actor) | Q(object=f"bulk:{row.pk}"),
        namespace=row.namespace, at__gte=row.created_at, at__lte=until + dt.timedelta(seconds=1),
    )  # fmt: skip
    context = {
        "viewer": viewer,
        "bulk": row,
        "touched": row.done + row.skipped,
        "left": max(row.count - row.done - row.skipped, 0),
        "entries": list(entries.order_by("-at", "-id")[:ENTRIES]),
        "may_admin": viewer.role in ("admin", "operator"),
        "version": versions.of_bulk(row.state, row.done, row.skipped),
    }
    template = "console/_bulk.html" if "HX-Request" in request.headers else "console/bulk.html"
    return render(request, template, context)


@require_POST
@for_viewers
def stop(request: HttpRequest, viewer: Viewer, bulk_id: str) -> HttpResponse:
    """Touches no further task."""
    row = one_of(viewer, bulk_id)
    try:
        bulk.stop(
            row.namespace, row.client, row.pk, actor=f"user:{viewer.name}", now=now(),
            ip=request.META.get("REMOTE_ADDR", ""),
        )  # fmt: skip
        messages.success(request, _("It is stopped: no further task is touched."))
    except (StateConflict, NotFound):
        messages.warning(request, _("It has ended already."))
    return redirect("console:bulk", bulk_id=str(row.pk))


def _wish(viewer: Viewer, given: QueryDict) -> Wish:
    """What the address, or the answered question, asks for. The time is that of the count that was shown."""
    if not viewer.may_act or given.get("action") not in Bulk.Action.values:
        raise Http404
    asked = Filter.of(QueryDict(given.get("query", "")[:4000]) if "query" in given else given)
    if asked.namespace and viewer.namespaces is not None and asked.namespace not in viewer.namespaces:
        raise Http404
    names = catalog.namespaces(viewer) if not asked.namespace else [asked.namespace]
    asked = asked.but(namespace=names[0] if len(names) == 1 else asked.namespace)
    at = min(_time(given.get("at", "")) or now(), now())
    found = search.find(viewer, asked, at)
    return Wish(given.get("action", ""), asked.namespace, asked, asked.bulk(found.bulk, at) or None, at)


def _time(text: str) -> dt.datetime | None:
    try:
        found = parse_time(text)
    except ValueError:
        return None
    return found if 1970 <= found.year < 9999 else None


def _preview(wish: Wish) -> dict[str, Any]:
    tasks = wish.tasks()
    count = tasks[: bulk.MOST].count()
    may_repeat = Attempt.objects.filter(task_id=OuterRef("id")).exclude(certainty=Certainty.NOT_SENT)
    repeated = 0
    if wish.action == Bulk.Action.RETRY and count:
        repeated = tasks.filter(Exists(may_repeat))[: bulk.MOST].count()
    return {
        "count": count,
        "most": bulk.MOST,
        "words": bulk_words(wish.action, count, repeated),
        "sample": list(tasks.order_by("-id")[:SAMPLE]),
        "seconds": 1000 * -(-count // (bulk.PER_RUN // 2)),
    }


def _visible(viewer: Viewer) -> QuerySet[Bulk]:
    if not viewer.may_act:
        raise Http404
    rows = Bulk.objects.all()
    return rows if viewer.namespaces is None else rows.filter(namespace__in=viewer.namespaces)


def one_of(viewer: Viewer, bulk_id: str) -> Bulk:
    """The bulk action, if this person may see it; else 404."""
    id: uuid.UUID | None = parse_id(bulk_id)
    row = _visible(viewer).filter(pk=id).first() if id else None
    if row is None:
        raise Http404
    return row

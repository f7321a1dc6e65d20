"""The dashboards: figures that lead to their tasks, and the same over time as charts."""

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from common.clock import now
from insight import catalog, dashboard
from insight.access import Viewer
from insight.console.views import for_viewers
from insight.dashboard import Dashboard
from insight.filters import SPANS, Filter


@require_safe
@for_viewers
def page(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Figures by ability, agent or client over an hour, a day or a week."""
    by, within = request.GET.get("by", "ability"), request.GET.get("within", "24h")
    by, within = by if by in dashboard.KEYS else "ability", within if within in SPANS else "24h"
    names, namespace = catalog.namespaces(viewer), Filter.of(request.GET).namespace
    if namespace and namespace not in names:
        raise Http404
    found = dashboard.load(viewer, by, within, namespace, now())
    base = Filter(namespace=namespace, within=within)

    def query(**changes: str) -> str:
        given = {"by": by, "within": within, "namespace": namespace} | changes
        return urlencode({name: value for name, value in given.items() if value})

    rows = [(key, figures, base.but(**{by: key or ""}).query() if key else None) for key, figures in found.rows()]
    context = {
        "viewer": viewer,
        "by": by,
        "within": within,
        "keys": [(one, query(by=one)) for one in dashboard.KEYS],
        "spans": [(one, query(within=one)) for one in SPANS],
        "namespaces": [(one, one == namespace, query(namespace=one)) for one in names] if len(names) > 1 else [],
        "everywhere": query(namespace=""),
        "namespace": namespace,
        "found": found,
        "rows": rows,
        "all": base.query(),
        "most": dashboard.MOST,
        "charts": _charts(found) if found.total.tasks else [],
    }
    return render(request, "console/dashboards.html", context)


def _charts(found: Dashboard) -> list[dict[str, Any]]:
    """Each a title and, as JSON, what the chart library is given: times in seconds, then a column a line."""
    series = found.series()
    at = [moment.timestamp() for moment, _figures in series]
    figures = [one for _moment, one in series]
    counted = [
        (_("accepted tasks"), "--b-queue", [one.tasks for one in figures]),
        (_("succeeded"), "--b-deliver", [one.succeeded for one in figures]),
        (_("failed or timed out"), "--b-failed", [one.failed for one in figures]),
    ]
    shares = [
        (_("received by the agent"), "--b-run", [_hundredths(one.delivery) for one in figures]),
        (_("completed"), "--b-deliver", [_hundredths(one.completion) for one in figures]),
    ]
    times = [
        (_("in the queue"), "--b-queue", [one.queued[1] for one in figures]),
        (_("Receipt delay"), "--b-route", [one.receipt[1] for one in figures]),
        (_("Run time"), "--b-run", [one.run[1] for one in figures]),
    ]
    titled = (
        (_("Tasks by how they ended"), "", counted), (_("Shares"), "%", shares),
        (_("Times, 95th percentile"), "ms", times),
    )  # fmt: skip
    return [_chart(title, unit, at, lines) for title, unit, lines in titled]


def _chart(title: str, unit: str, at: list[float], lines: list[tuple[str, str, list[Any]]]) -> dict[str, Any]:
    given = {
        "unit": unit,
        "lines": [{"label": label, "colour": colour} for label, colour, _values in lines],
        "data": [at, *(values for _label, _colour, values in lines)],
    }
    return {"title": title, "unit": unit, "json": json.dumps(given)}


def _hundredths(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)

"""A trace's tasks as a tree on one scale of time."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from common.clock import now
from insight import traces
from insight.access import Viewer
from insight.console.views import for_viewers


@require_safe
@for_viewers
def page(request: HttpRequest, viewer: Viewer, trace_id: str) -> HttpResponse:
    """The tasks of the trace that this person may see, each under the one that asked for it."""
    found = traces.drawn(viewer.tasks(), trace_id, now()) if trace_id.isprintable() else None
    if found is None:
        raise Http404
    return render(request, "console/trace.html", {"viewer": viewer, "trace": found, "q": trace_id})

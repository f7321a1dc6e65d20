"""The console's callbacks: by state, with what their receivers said last."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from common.clock import now
from insight import callback_list
from insight.access import Viewer
from insight.console.views import for_viewers
from insight.filters import Filter


@require_safe
@for_viewers
def browse(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """A page of them, newest first."""
    given = Filter.of(request.GET)
    state = request.GET.get("state", "")
    state = state if state in callback_list.STATES else ""
    told = callback_list.Told(viewer, given, now())
    counted, page = told.counts(), told.page(state, before := request.GET.get("before"))
    chosen = {name: value for name in ("namespace", "client") if (value := getattr(given, name))}

    def query(**changes: str | None) -> str:
        return urlencode([(name, value) for name, value in ({"state": state} | chosen | changes).items() if value])

    context = {
        "viewer": viewer,
        "page": page,
        "state": state,
        "states": [(one, counted[one], one == state, query(state=one)) for one in callback_list.STATES],
        "any_state": query(state=None),
        "total": sum(counted.values()),
        "counted": callback_list.COUNTED,
        "chips": [(name, value, query(**{name: None})) for name, value in chosen.items()],
        "bulk": urlencode([*chosen.items(), ("callback", state)]) if viewer.may_act and state in _AGAIN else None,
        "before": before,
        "newest": query(),
        "older": query(before=page.older) if page.older else None,
        "here": query(before=before),
    }
    return render(request, "console/callbacks.html", context)


_AGAIN = ("DEAD", "DELIVERED")

"""The console's alerts: what holds now, what is over, and who looks after it."""

from django.contrib import messages
from django.db.models import F, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from common.clock import now
from common.errors import NotFound
from common.ids import parse_id
from insight.access import Viewer
from insight.alerts.words import message_of
from insight.console.views import for_viewers
from insight.models import Alert
from insight.services import alerts

SHOWN = 100


@require_safe
@for_viewers
def browse(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The newest alerts that concern this person; those that nobody looks after come first."""
    rows = Alert.objects.filter(_concerns(viewer))
    still = list(
        rows.filter(ended_at=None).order_by(F("acked_at").asc(nulls_first=True), "severity", "-raised_at")[:SHOWN]
    )
    over = list(rows.exclude(ended_at=None).order_by("-ended_at")[:SHOWN])
    language = get_language()
    context = {
        "viewer": viewer,
        "still": [(row, message_of(row).in_language(language)) for row in still],
        "over": [(row, message_of(row).in_language(language)) for row in over],
    }
    return render(request, "console/alerts.html", context)


@require_POST
@for_viewers
def acknowledge(request: HttpRequest, viewer: Viewer, alert_id: str) -> HttpResponse:
    """Notes that this person looks after it."""
    found = parse_id(alert_id)
    if found is None or not viewer.may_act or not Alert.objects.filter(_concerns(viewer), pk=found).exists():
        raise Http404
    try:
        alerts.acknowledge(
            found, None, actor=f"user:{viewer.name}", now=now(), ip=request.META.get("REMOTE_ADDR", "")
        )  # fmt: skip
    except NotFound:
        raise Http404 from None
    messages.success(request, _("Noted: you look after it."))
    return redirect("console:alerts")


def _concerns(viewer: Viewer) -> Q:
    if viewer.agents is not None:
        own = Q(pk__in=[])
        for namespace, agent_id in sorted(viewer.agents):
            own |= Q(namespace=namespace, agent_id=agent_id)
        return own
    return Q() if viewer.namespaces is None else Q(namespace__in=viewer.namespaces)

"""The buttons: one POST, one service call, one line in the audit log."""

from collections.abc import Callable
from datetime import datetime

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

import callbacks.services
from common.clock import now
from common.errors import StateConflict
from insight.access import Viewer
from insight.console.views import for_viewers, visible_journey
from insight.console.words import done_words
from insight.journey import Journey
from registry.services import audit
from routing.services import cancel, retry


def _cancel(found: Journey, actor: str, at: datetime) -> None:
    cancel.cancel(found.task.id, actor, at)


def _retry(found: Journey, actor: str, at: datetime) -> None:
    retry.retry(found.task.id, actor, at)


def _redeliver(found: Journey, actor: str, at: datetime) -> None:
    with transaction.atomic():
        callbacks.services.redeliver(found.task.callback_id, at)
        told = f"task:{found.task.id}"
        audit.record(actor, "task.callback.redeliver", told, namespace=found.task.namespace, now=at)


ACTIONS: dict[str, Callable[[Journey, str, datetime], None]] = {  # each leaves its line in the audit log
    "cancel": _cancel,
    "retry": _retry,
    "redeliver": _redeliver,
}


@require_POST
@for_viewers
def act(request: HttpRequest, viewer: Viewer, task_id: str, action: str) -> HttpResponse:
    """Does it if the person may, and goes back to the task's page with what happened."""
    if action not in ACTIONS or not viewer.may_act:
        raise Http404
    found = visible_journey(viewer, task_id)
    at, actor = now(), f"user:{viewer.name}"
    try:
        ACTIONS[action](found, actor, at)
    except StateConflict:
        messages.warning(request, _("That is no longer possible: the task has moved on meanwhile."))
    else:
        messages.success(request, done_words(action))
    return redirect("console:task", task_id=str(found.task.id))

"""The buttons: one POST, one service call, one line in the audit log."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from common.clock import now
from common.errors import StateConflict
from insight.access import Viewer
from insight.console.views import for_viewers, visible_journey
from insight.console.words import done_words
from routing.services import cancel, redeliver, retry

ACTIONS = {  # each leaves its line in the audit log
    "cancel": cancel.cancel,
    "retry": retry.retry,
    "redeliver": redeliver.redeliver,
}


@require_POST
@for_viewers
def act(request: HttpRequest, viewer: Viewer, task_id: str, action: str) -> HttpResponse:
    """Does it if the person may, and goes back to where it was asked, else to the task's page, with what happened."""
    if action not in ACTIONS or not viewer.may_act:
        raise Http404
    found = visible_journey(viewer, task_id)
    at, actor = now(), f"user:{viewer.name}"
    try:
        ACTIONS[action](found.task.id, actor, at, ip=request.META.get("REMOTE_ADDR", ""))
    except StateConflict:
        messages.warning(request, _("That is no longer possible: the task has moved on meanwhile."))
    else:
        messages.success(request, done_words(action))
    back = request.POST.get("back", "")
    if url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        return redirect(back)
    return redirect("console:task", task_id=str(found.task.id))

"""The console's streams of changes: a list, a journey, a bulk action."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from common.ids import parse_id
from insight.access import Viewer
from insight.console.bulk import one_of
from insight.console.views import for_viewers
from insight.live import Changes
from insight.versions import Person, Shown, Watched

LONGEST = 10  # digits of a version


@require_safe
@for_viewers
def tasks(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Of a list that is narrowed down as the address says."""
    given = request.GET.copy()
    given.pop("seen", None)
    return _stream(request, viewer, Shown("list", given.urlencode()))


@require_safe
@for_viewers
def task(request: HttpRequest, viewer: Viewer, task_id: str) -> HttpResponse:
    """Of a task's journey."""
    id = parse_id(task_id)
    if id is None or not viewer.tasks().filter(id=id).exists():
        raise Http404
    return _stream(request, viewer, Shown("task", task_id))


@require_safe
@for_viewers
def bulk(request: HttpRequest, viewer: Viewer, bulk_id: str) -> HttpResponse:
    """Of a bulk action's progress."""
    return _stream(request, viewer, Shown("bulk", str(one_of(viewer, bulk_id).pk)))


def _stream(request: HttpRequest, viewer: Viewer, shown: Shown) -> HttpResponse:
    """The head; the front writes the rest."""
    user: Any = request.user
    seen = request.GET.get("seen", "")
    person = Person(request.session.session_key or "", user.pk, user.get_session_auth_hash(), viewer)
    response = HttpResponse(content_type="text/event-stream")
    response["X-Accel-Buffering"] = "no"
    response.hand_off = Changes(  # type: ignore[attr-defined]
        Watched(shown, person), int(seen) if seen.isascii() and seen.isdigit() and len(seen) <= LONGEST else 0
    )
    return response

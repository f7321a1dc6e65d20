"""The console's two pages: the list with its search box, and one task's journey."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from common.clock import now
from common.errors import NotFound
from common.ids import parse_id
from insight import journey, search, versions
from insight.access import Viewer, viewer_of
from insight.console import saved
from insight.console.words import action_words, phase_words
from insight.filters import SPANS, Filter
from insight.journey import Journey
from insight.masking import sensitive_fields, shown
from insight.timeline import timeline
from routing.documents import timings_object
from routing.states import OPEN, TaskState

View = Callable[..., HttpResponse]


class Login(LoginView):
    template_name = "console/login.html"
    next_page = "console:tasks"
    redirect_authenticated_user = True


def for_viewers(view: View) -> View:
    """Hands the view the Viewer; who is not logged in goes to the login, who has no role is told so."""

    @never_cache
    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return _to_login(request)
        viewer = viewer_of(request.user)
        if viewer is None:
            return render(request, "console/no_role.html", status=403)
        return view(request, viewer, *args, **kwargs)

    return checked


def _to_login(request: HttpRequest) -> HttpResponse:
    response: HttpResponse = redirect(f"{reverse('console:login')}?{urlencode({'next': request.get_full_path()})}")
    if "HX-Request" in request.headers:  # a fragment cannot hold the login page: the whole window goes there
        response = HttpResponse(status=204)
        response["HX-Redirect"] = reverse("console:login")
    return response


@require_safe
@for_viewers
def task_list(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The newest tasks, or those that the search box and the filters ask for; one exact hit leads to its page."""
    asked, fragment = Filter.of(request.GET), "HX-Request" in request.headers
    at, before = now(), request.GET.get("before")
    found = search.find(viewer, asked, at)
    if found.by_id and not fragment and asked == Filter(q=asked.q) and (exact := _exact(found, asked.q)):
        return redirect(exact)
    counted, page = found.counts(viewer, at), found.page(viewer, at, before)
    context = {
        "viewer": viewer,
        "q": asked.q,
        "asked": asked,
        "page": page,
        "states": [(TaskState(name), counted[name], name in asked.states, asked.but(states=(name,)).query())
                   for name in TaskState.values],
        "any_state": asked.but(states=()).query(),
        "chips": [(name, value, asked.but(**{name: ""}).query()) for name, value in asked.set()],
        "spans": [(name, asked.but(within="" if name == asked.within else name).query()) for name in SPANS],
        "total": sum(counted.values()),
        "counted": search.COUNTED,
        "before": before,
        "version": versions.of_list(page.tasks),
        "again": request.get_full_path(),
        "newest": asked.query(),
        "older": asked.query(before=page.older) if page.older else None,
        "views": [] if fragment else saved.of_user(request.user),
        "bulk": asked.query() if viewer.may_act and asked.bulk(found.bulk, at) else None,
    }  # fmt: skip
    return render(request, "console/_tasks.html" if fragment else "console/tasks.html", context)


def _exact(found: search.Found, query: str) -> str | None:
    """The page of what an id names: the one task, or the trace that has several."""
    if found.tasks is None:
        return None
    if only := search.only_id(found.tasks):
        return reverse("console:task", args=[only])
    return reverse("console:trace", args=[query]) if found.trace and found.tasks.exists() else None


@require_safe
@for_viewers
def task_page(request: HttpRequest, viewer: Viewer, task_id: str) -> HttpResponse:
    """One task's journey; asked by the page itself (`seen`), only what has changed since."""
    found = visible_journey(viewer, task_id)
    version = _version(found)
    if "HX-Request" in request.headers and request.GET.get("seen") == str(version):
        return HttpResponse(status=204)
    context = {"viewer": viewer, "version": version, "ask": request.GET.get("ask"), **_journey_context(viewer, found)}
    template = "console/_journey.html" if "HX-Request" in request.headers else "console/task.html"
    return render(request, template, context)


def visible_journey(viewer: Viewer, task_id: str) -> Journey:
    """The journey, if this person may see that task; else 404."""
    id = parse_id(task_id)
    if id is None:
        raise Http404
    try:
        return journey.load(id, viewer.tasks())
    except NotFound:
        raise Http404 from None


def _journey_context(viewer: Viewer, found: Journey) -> dict[str, Any]:
    at, task, language = now(), found.task, get_language()
    summary = found.summary(at)
    pointers = sensitive_fields(found)
    body = found.body
    request, metadata, result, late = (body.request, body.metadata, body.result, body.late) if body else (None,) * 4
    return {
        "task": task,
        "journey": found,
        "callback": found.callback,
        "decisions": journey.decisions(found),
        "scales": timeline(found, at),
        "phases": phase_words(timings_object(task.timings, task.created_at, task.ended_at)),
        "summary": summary,
        "cause": summary.cause.in_language(language),
        "next": summary.next.in_language(language),
        "actions": [action_words(name, found) for name in offered(viewer, found)],
        "moving": task.state in OPEN or (found.callback is not None and found.callback.state == "PENDING"),
        "payload": shown(request, pointers, "payload"),
        "metadata": shown(metadata, pointers),
        "result": shown(result, pointers, "data"),
        "late": shown(late, pointers),
        "masked": pointers,
        "public_url": settings.REACH_PUBLIC_URL,
    }


def offered(viewer: Viewer, found: Journey) -> list[str]:
    """The buttons: the safe ones, and a retry that may repeat an effect, which its question says."""
    if not viewer.may_act:
        return []
    actions = list(found.summary(now()).actions)
    if found.task.state not in OPEN and found.task.state != TaskState.SUCCEEDED and "retry" not in actions:
        actions.insert(0, "retry")
    return actions


def _version(found: Journey) -> int:
    callback = found.callback
    told = (callback.state, callback.attempts) if callback else None
    return versions.of_task(found.task.seq, found.task.state, told)

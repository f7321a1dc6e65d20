"""The console's catalog: search, one ability, and one agent with its instances."""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe

from common.clock import now
from common.errors import NotFound
from insight import agent_page, catalog, stats
from insight.access import Viewer
from insight.agent_api import USUAL
from insight.console.views import for_viewers
from registry.permissions import DEFAULT_NAMESPACE

LONGEST = 200
TAGS = 10


@require_safe
@for_viewers
def browse(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Abilities by words and tags."""
    known = catalog.namespaces(viewer)
    namespace = _namespace(request, known)
    search, tags, after = _text(request, "q"), _tags(request), _text(request, "after")
    page = catalog.page(viewer, namespace, search, tags, after, now()) if namespace else None
    context = {
        "viewer": viewer,
        "namespaces": known,
        "namespace": namespace,
        "q": search,
        "chosen": tags,
        "page": page,
        "tags": [(tag, n, tag in tags, _query(namespace, search, _toggled(tags, tag))) for tag, n in page.tags.items()]
        if page
        else [],
        "next": _query(namespace, search, tags, page.after) if page and page.after else None,
        "first": _query(namespace, search, tags) if after else None,
    }
    return render(request, "console/catalog.html", context)


@require_safe
@for_viewers
def ability(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """One ability: what it takes and gives, how to ask for it, and who serves it."""
    namespace = _namespace(request, catalog.namespaces(viewer))
    found = catalog.ability(viewer, namespace, _text(request, "name"), now()) if namespace else None
    if found is None:
        raise Http404
    entry = found.entry
    context = {
        "viewer": viewer,
        "namespace": namespace,
        "entry": entry,
        "agents": found.agents,
        "input": None if entry.input_schema is None else catalog.as_json(entry.input_schema),
        "output": None if entry.output_schema is None else catalog.as_json(entry.output_schema),
        "sample": None if entry.request_sample is None else catalog.as_json(entry.request_sample),
        "curl": catalog.curl(entry, settings.REACH_PUBLIC_URL),
    }
    return render(request, "console/catalog_ability.html", context)


@require_safe
@for_viewers
def agent(request: HttpRequest, viewer: Viewer, namespace: str, agent_id: str) -> HttpResponse:
    """One agent: each instance's state, since when and why, score, probes, moves."""
    at = now()
    try:
        page = agent_page.load(viewer, namespace, agent_id, _text(request, "after"), at)
    except NotFound:
        raise Http404 from None
    context: dict[str, Any] = {
        "viewer": viewer,
        "page": page,
        "agent": page.agent,
        "stats": stats.of_agent(page.agent, USUAL, at),
        "may_admin": viewer.role != "support",
    }
    return render(request, "console/agent.html", context)


def _namespace(request: HttpRequest, known: list[str]) -> str | None:
    """The one that was asked for, if it may be looked at; else the usual one, else the first."""
    asked = _text(request, "namespace")
    if asked:
        if asked not in known:
            raise Http404
        return asked
    return DEFAULT_NAMESPACE if DEFAULT_NAMESPACE in known else next(iter(known), None)


def _text(request: HttpRequest, name: str) -> str:
    """A text from the query; what no stored text can be is nothing."""
    given = request.GET.get(name, "").strip()[:LONGEST]
    return given if given.isprintable() else ""


def _tags(request: HttpRequest) -> list[str]:
    return [tag[:LONGEST] for tag in dict.fromkeys(request.GET.getlist("tag")) if tag and tag.isprintable()][:TAGS]


def _toggled(tags: list[str], tag: str) -> list[str]:
    return [one for one in tags if one != tag] if tag in tags else [*tags, tag]


def _query(namespace: str | None, search: str, tags: list[str], after: str | None = None) -> str:
    query = QueryDict(mutable=True)
    given: dict[str, list[str | None]] = {"namespace": [namespace], "q": [search], "tag": [*tags], "after": [after]}
    for name, values in given.items():
        query.setlist(name, [value for value in values if value])
    return query.urlencode()

"""Who would get a task, and why not the others: asked of the routing itself, without sending anything."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from common.errors import AbilityNotAllowed, AbilityNotRegistered, Invalid, NoMatch
from insight import catalog
from insight.access import Viewer
from insight.console.views import for_viewers
from registry.models import Client
from registry.permissions import DEFAULT_NAMESPACE
from registry.principal import Principal
from routing.api import choose

LONGEST = 2000
FIELDS = ("namespace", "ability", "intent", "tags", "client", "sessionId")


@require_safe
@for_viewers
def ask(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The form, and under it the answer. Owners have none: it names other teams' agents."""
    if viewer.agents is not None:
        raise Http404
    names = catalog.namespaces(viewer)
    given = {name: _text(request.GET.get(name, "")) for name in FIELDS}
    given["namespace"] = given["namespace"] or (DEFAULT_NAMESPACE if DEFAULT_NAMESPACE in names else "".join(names[:1]))
    if given["namespace"] not in names and names:
        raise Http404
    asked = any(given[name] for name in ("ability", "intent", "tags"))
    context: dict[str, Any] = {"viewer": viewer, "namespaces": names, "given": given}
    if asked and names:
        context |= _answer(given)
    return render(request, "console/who.html", context)


def _answer(given: dict[str, str]) -> dict[str, Any]:
    """`found` is the decision; else `problem` says why there is none, with `suggestions`."""
    principal = _principal(given["namespace"], given["client"])
    if principal is None:
        return {"problem": _("No client of this namespace has that name.")}
    body: dict[str, Any] = {name: given[name] for name in ("ability", "intent", "sessionId") if given[name]}
    if tags := [tag for tag in given["tags"].replace(",", " ").split() if tag]:
        body["tags"] = tags
    try:
        return {"found": choose.explained(principal, given["namespace"], body)}
    except Invalid as error:
        return {"problem": _("Name an ability or say what is wanted, not both.") if _both(given) else error.detail}
    except AbilityNotAllowed:
        return {"problem": _("That client may not use this ability.")}
    except AbilityNotRegistered:
        return {"problem": _("No agent offers this ability, and no route names it.")}
    except NoMatch as error:
        return {
            "problem": _("No ability is meant for certain."),
            "suggestions": [one["ability"] for one in error.extra.get("suggestions", [])],
        }


def _both(given: dict[str, str]) -> bool:
    return bool(given["ability"] and given["intent"])


def _principal(namespace: str, client: str) -> Principal | None:
    """Who asks: an operator, or that client; None when there is no such client."""
    if not client:
        return Principal("operator", None, None, None, frozenset())
    row = Client.objects.filter(namespace=namespace, name=client).first()
    if row is None:
        return None
    return Principal("client", namespace, client, None, frozenset(), abilities=tuple(row.abilities))


def _text(given: str) -> str:
    given = given.strip()[:LONGEST]
    return given if given.isprintable() else ""

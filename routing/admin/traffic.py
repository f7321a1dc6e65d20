"""A route's traffic page: who gets how much, who is meant to, canary steps with a question first, and the way back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Invalid, NotFound, StateConflict
from registry import history
from registry.admin.access import author_of, reach_of
from registry.models import Capability
from registry.services.audit import Author
from routing import route_tables
from routing import traffic as figures
from routing.admin.mine import own_agents
from routing.models import Candidate, Route
from routing.services import traffic
from routing.services.traffic import Earlier, Stale
from routing.shares import HIGHEST, STEPS, shares, stepped
from routing.templatetags.traffic_words import share_words

PAGE = "admin/routing/route/traffic.html"
QUESTION = "admin/routing/route/traffic_question.html"
OFFERED = 200  # agents that may be added, the first by name


@dataclass(frozen=True, slots=True)
class Seen:
    """The route as its page shows it to one person; `own` = the agents that are this person's."""

    request: HttpRequest
    context: dict[str, Any]
    route: Route
    candidates: list[Candidate]
    own: set[str]

    @property
    def may_change(self) -> bool:
        """Weights are shares of one whole: whoever changes one changes all, so all must be one's own."""
        return self.own.issuperset(one.agent_id for one in self.candidates)

    @property
    def weights(self) -> list[int | None]:
        return [one.weight for one in self.candidates]

    @property
    def revision(self) -> int:
        """Of the route that the form was filled in for; 0 where it does not say."""
        text = self.request.POST.get("revision", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

    @property
    def is_current(self) -> bool:
        """Whether the form was filled in for the route as it is; the services look once more, under a lock."""
        return self.revision == self.route.revision

    @property
    def author(self) -> Author:
        who = author_of(self.request)
        return Author(who["actor"], now(), who["ip"])


def page(pages: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """The page of the route that `pages`, its ModelAdmin, lets this person see; POST asks, changes, or goes back."""
    seen = _seen(pages, request, object_id)
    if request.method != "POST":
        return _shown(seen)
    if not seen.may_change:
        raise PermissionDenied
    act = {"ask": _ask, "set": _set, "back": _back, "add": _add}.get(request.POST.get("do", ""))
    if act is None:
        return _again(seen)
    return act(seen) if seen.is_current else _stale(seen, traffic.since(seen.route, seen.revision))


def _seen(pages: Any, request: HttpRequest, object_id: str) -> Seen:
    route: Route | None = pages.get_object(request, object_id)  # one that the person may see, or none
    if route is None:
        raise Http404
    candidates = list(Candidate.objects.filter(route=route))
    own = own_agents(reach_of(request), route.namespace_id, [one.agent_id for one in candidates])
    context = {
        **pages.admin_site.each_context(request),
        "opts": pages.opts,
        "title": _("Traffic of %(ability)s") % {"ability": route.ability},
        "route": route,
        "may_edit": reach_of(request).everything,
    }
    return Seen(request, context, route, candidates, own)


def _shown(seen: Seen, given: Mapping[int, str] | None = None, errors: Mapping[int, str] | None = None) -> HttpResponse:
    """The page; after an error with what was `given` for each place, and what is wrong with it."""
    found = figures.of_route(seen.route, seen.candidates, now())
    earlier = traffic.before_last_change(seen.route)
    own = [line for line in found.lines if line.candidate.agent_id in seen.own]
    rows = [
        {
            "line": line,
            "given": (given or {}).get(line.place, "" if line.candidate.weight is None else line.candidate.weight),
            "error": (errors or {}).get(line.place),
        }
        for line in own
    ]
    context = {
        "rows": rows,
        "others": None if len(own) == len(found.lines) else _others(found, own),
        "traffic": found,
        "may_change": seen.may_change,
        "steps": STEPS,
        "highest": HIGHEST,
        "wrong": bool(errors),
        "earlier": _earlier(seen, earlier) if seen.may_change else None,
        "offers": _offers(seen) if seen.may_change else [],
    }
    return TemplateResponse(seen.request, PAGE, {**seen.context, **context})


def _others(found: figures.Traffic, own: list[figures.Line]) -> dict[str, Any]:
    """The candidates of other teams as one, without their names."""
    rest = [line for line in found.lines if line not in own]
    calls = sum(line.calls.count for line in rest)
    set_shares = [line.share for line in rest if line.share is not None]
    return {
        "share": sum(set_shares) if set_shares else None,
        "present": calls / found.calls if found.calls else None,
        "calls": calls,
    }


def _earlier(seen: Seen, found: Earlier | None) -> dict[str, Any] | None:
    """What a rollback would bring; None where there is none, or it would bring back another team's agent."""
    if found is None:
        return None
    reach, named = reach_of(seen.request), {one["agent"] for one in found.candidates}
    if own_agents(reach, seen.route.namespace_id, named) != named:
        return None
    was = shares([one.get("weight") for one in found.candidates])
    parts = [(route_tables.name_of(one), share) for one, share in zip(found.candidates, was, strict=True)]
    return {"parts": parts, "by": history.in_words(found.edit)}


def _ask(seen: Seen) -> HttpResponse:
    """The question: what would happen. Nothing is changed yet."""
    step = _step(seen)
    weights, errors = (stepped(seen.weights, *step), None) if step is not None else _weights(seen)
    if errors:
        given = {place: seen.request.POST.get(f"weight-{place}", "") for place in range(len(seen.candidates))}
        return _shown(seen, given, errors)
    if weights == seen.weights:
        messages.info(seen.request, _("These are the weights already; nothing was changed."))
        return _again(seen)
    return TemplateResponse(seen.request, QUESTION, {**seen.context, "moves": _moves(seen, weights)})


def _moves(seen: Seen, weights: list[int | None]) -> list[dict[str, Any]]:
    rows = zip(seen.candidates, shares(seen.weights), shares(weights), weights, strict=True)
    return [
        {
            "place": place,
            "name": route_tables.name_of(route_tables.written_candidate(one)),
            "before": before,
            "after": after,
            "weight": weight,
            "moves": before != after,
        }
        for place, (one, before, after, weight) in enumerate(rows)
    ]


def _set(seen: Seen) -> HttpResponse:
    weights, errors = _weights(seen)
    if errors:
        return _shown(seen, errors=errors)
    parts = ", ".join(f"{one['name']} {share_words(one['after'])}" for one in _moves(seen, weights))
    said = _("Changed: %(shares)s. New tasks follow it within a second.") % {"shares": parts}
    return _done(seen, said, traffic.set_weights, weights)


def _add(seen: Seen) -> HttpResponse:
    agent_id, _slash, capability = seen.request.POST.get("add", "").partition("/")
    if f"{agent_id}/{capability}" not in _offers(seen):
        messages.error(seen.request, _("Nothing was changed: choose one of your agents that has this capability."))
        return _again(seen)
    said = _("%(agent)s is a candidate now, with weight 0: give it a step.") % {"agent": agent_id}
    return _done(seen, said, traffic.add_candidate, agent_id, capability)


def _back(seen: Seen) -> HttpResponse:
    if _earlier(seen, traffic.before_last_change(seen.route)) is None:
        raise PermissionDenied
    return _done(seen, _("The shares are again as they were before the last change."), traffic.roll_back)


def _done(seen: Seen, said: str, service: Callable[..., Any], *given: Any) -> HttpResponse:
    """Lets the service do it and says how that went."""
    route = seen.route
    try:
        service(route.namespace_id, route.ability, *given, revision=seen.revision, author=seen.author)
    except Stale as stale:
        return _stale(seen, stale.edits)
    except (Invalid, NotFound, StateConflict) as error:
        messages.error(seen.request, error.detail)
        return _again(seen)
    messages.success(seen.request, said)
    return _again(seen)


def _offers(seen: Seen) -> list[str]:
    """One's own agents that could serve the ability and do not yet, each with the capability for it."""
    ability, reach = seen.route.ability, reach_of(seen.request)
    names = {ability, ability.rpartition(".")[2], *(one.capability for one in seen.candidates)} - {""}
    rows = Capability.objects.filter(
        reach.agents("agent__"), agent__namespace=seen.route.namespace_id, agent__deleted_at=None, name__in=names
    ).order_by("agent__agent_id", "name")
    there = {(one.agent_id, one.capability) for one in seen.candidates}
    pairs = rows.values_list("agent__agent_id", "name")[:OFFERED]
    return [f"{agent}/{name}" for agent, name in pairs if not there & {(agent, name), (agent, "")}]


def _stale(seen: Seen, edits: list[history.Edit]) -> HttpResponse:
    told = " · ".join(history.in_words(one) for one in edits[:3]) or _("it is not known by whom")
    text = _("Nothing was changed, as somebody else has changed this route meanwhile: %(edits)s. "
             "Below is how it is now; please decide again.")  # fmt: skip
    messages.error(seen.request, text % {"edits": told})
    return _again(seen)


def _again(seen: Seen) -> HttpResponse:
    return redirect(seen.request.path)


def _step(seen: Seen) -> tuple[int, int] | None:
    """(place, per cent) of the button that was pressed; None for the form with weights."""
    place, _dash, percent = seen.request.POST.get("step", "").partition("-")
    if place in map(str, range(len(seen.candidates))) and percent in map(str, STEPS):
        return int(place), int(percent)
    return None


def _weights(seen: Seen) -> tuple[list[int | None], dict[int, str]]:
    """What the form gives each candidate, and what is wrong by place."""
    weights: list[int | None] = []
    errors: dict[int, str] = {}
    for place in range(len(seen.candidates)):
        text = seen.request.POST.get(f"weight-{place}", "?").strip()  # a field that is missing is not an empty one
        good = text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= HIGHEST
        weights.append(int(text) if good else None)
        if text and not good:
            errors[place] = _(
                "Write a whole number from 0 to %(highest)s such as 10, or leave it empty for the strategy's pool."
            ) % {"highest": HIGHEST}
    if not errors and weights and all(one == 0 for one in weights):
        errors[0] = _("With only zeros nobody would get a task. Give at least one candidate more than 0.")
    return weights, errors

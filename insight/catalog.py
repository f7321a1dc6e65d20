"""The catalog as the console shows it: what a person may see of a namespace's abilities, and how who serves them is."""

import json
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, IntegerField, Value, When

from insight.access import Viewer
from registry import catalog
from registry.catalog import Entry, Offer, Offers
from registry.models import Agent, Instance, Namespace
from registry.services import evidence, figures, scoring
from registry.states import ROUTABLE
from routing.offers import offers

PAGE = 25
NAMESPACES_SHOWN = 200
TAGS_SHOWN = 40
SCORED = 300  # instances of a page whose scores are read, those that take work first


@dataclass(frozen=True, slots=True)
class Wellbeing:
    """How an agent is: its instances by state, and the mean score of those that take work (None: nobody does)."""

    agent: Agent
    states: dict[str, int] = field(default_factory=dict)
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """An ability with (capability, wellbeing) of each agent behind it."""

    entry: Entry
    agents: list[tuple[str, Wellbeing]]


@dataclass(frozen=True, slots=True)
class Page:
    """Abilities by name; `tags` count over everything found, `after` is where the next page begins."""

    rows: list[Row]
    tags: dict[str, int]
    total: int
    after: str | None


def namespaces(viewer: Viewer) -> list[str]:
    """Those that the person may look at, by name."""
    if viewer.agents is not None:
        return sorted({namespace for namespace, _ in viewer.agents})[:NAMESPACES_SHOWN]
    rows = Namespace.objects.order_by("name")
    if viewer.namespaces is not None:
        rows = rows.filter(name__in=viewer.namespaces)
    return list(rows.values_list("name", flat=True)[:NAMESPACES_SHOWN])


def page(viewer: Viewer, namespace: str, search: str, tags: Collection[str], after: str, now: datetime) -> Page:
    """What is found by words and tags, from the ability after `after` on."""
    seen = _visible(viewer, offers(namespace))
    found = catalog.find(seen, search, tags)
    rest = [one for one in found if one.ability > after]
    shown = rest[:PAGE]
    counted = dict(list(catalog.tags_of(seen, found).items())[:TAGS_SHOWN])
    return Page(_rows(namespace, shown, now), counted, len(found), shown[-1].ability if len(rest) > PAGE else None)


def ability(viewer: Viewer, namespace: str, name: str, now: datetime) -> Row | None:
    """One ability; None if there is none that the person may see."""
    found = [one for one in _visible(viewer, offers(namespace)).rows if one.ability == name]
    return next(iter(_rows(namespace, found, now)), None)


def wellbeing(namespace: str, agent_ids: Collection[str], now: datetime) -> dict[str, Wellbeing]:
    """How these agents are; three queries for any number of them."""
    rows = Agent.objects.filter(namespace=namespace, agent_id__in=agent_ids, deleted_at=None)
    agents = {row.pk: row for row in rows.defer("manifest", "warnings")}
    present = Instance.objects.filter(agent__in=list(agents), left_at=None)
    states: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for pk, state, count in present.values_list("agent", "state").annotate(n=Count("pk")).order_by("agent", "state"):
        states[pk][state] = count
    first = Case(When(state__in=ROUTABLE, then=Value(0)), default=Value(1), output_field=IntegerField())
    scores = _scores(agents, list(present.order_by(first, "pk")[:SCORED]), now)
    return {row.agent_id: Wellbeing(row, states[pk], scores.get(pk)) for pk, row in agents.items()}


def as_json(value: Any) -> str:
    """A schema or a sample, indented."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def curl(entry: Entry, url: str) -> str:
    """A command that asks for the ability with its sample."""
    body = {"target": {"ability": entry.ability}, "payload": entry.request_sample or {}}
    quoted = shlex.quote(json.dumps(body, ensure_ascii=False))
    head = '-H "Authorization: Bearer $REACH_KEY" -H "Content-Type: application/json"'
    return f"curl -X POST {shlex.quote(f'{url}/v1/reach')} {head} -d {quoted}"


def _visible(viewer: Viewer, known: Offers) -> Offers:
    """Owners see what their own agents offer, and only those behind it."""
    if viewer.agents is None:
        return known
    mine = {agent_id for namespace, agent_id in viewer.agents if namespace == known.namespace}
    kept = (replace(one, behind=tuple(key for key in one.behind if key[0] in mine)) for one in known.rows)
    return replace(known, rows=tuple(one for one in kept if one.behind))


def _rows(namespace: str, shown: list[Offer], now: datetime) -> list[Row]:
    entries = catalog.read(namespace, shown)
    known = wellbeing(namespace, {agent_id for one in shown for agent_id, _ in one.behind}, now)
    return [
        Row(entry, [(name, known[agent_id]) for agent_id, name in entry.offer.behind if agent_id in known])
        for entry in entries
    ]


def _scores(agents: dict[int, Agent], rows: Iterable[Instance], now: datetime) -> dict[int, float]:
    rows = [row for row in rows if row.state in ROUTABLE]
    settings = figures.of_agents((pk, agent.revision) for pk, agent in agents.items())
    kept = evidence.read([row.pk for row in rows])
    by_agent: defaultdict[int, list[float]] = defaultdict(list)
    for row in rows:
        known = scoring.scored(row.state, row.heartbeat, kept[row.pk], settings[row.agent_id], now)
        by_agent[row.agent_id].append(known.score)
    return {pk: sum(some) / len(some) for pk, some in by_agent.items()}

"""What can be asked for in a namespace, for people and for models.

Which abilities there are, and which agents' capabilities stand behind each, is routing's to say, as routes may give a
capability another name; it hands that in as offers. What the capabilities are is read here.
"""

import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from registry.models import Capability
from registry.words import folded, matches

SEARCHES_KEPT = 16


@dataclass(frozen=True, slots=True)
class Offer:
    """An ability by name; `explicit` = it has a route of its own; `behind` as (agent id, capability), the first
    described first; `available` = somebody takes work now."""

    ability: str
    explicit: bool
    strategy: str
    behind: tuple[tuple[str, str], ...]
    available: bool


@dataclass(frozen=True, slots=True)
class Offers:
    """A namespace's offers in order of their names, as of a version."""

    namespace: str
    version: int
    rows: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """What of a capability is searched."""

    words: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Entry:
    """An ability with the capabilities behind it; what describes it is the first one's."""

    offer: Offer
    behind: tuple[Capability, ...]

    @property
    def ability(self) -> str:
        return self.offer.ability

    @property
    def first(self) -> Capability | None:
        return self.behind[0] if self.behind else None

    @property
    def title(self) -> str:
        """A name for people: the agent's, with the capability's."""
        name = self.first.agent.display_name if self.first else ""
        return f"{name} · {self.first.name}" if self.first and name else ""

    @property
    def description(self) -> str:
        return next((one.description for one in self.behind if one.description), "")

    @property
    def input_schema(self) -> Any:
        return self.first.input_schema if self.first else None

    @property
    def output_schema(self) -> Any:
        return self.first.output_schema if self.first else None

    @property
    def request_sample(self) -> Any:
        return next((s for one in self.behind if (s := one.spec.get("requestSample")) is not None), None)

    @property
    def tags(self) -> list[str]:
        return list(dict.fromkeys(tag for one in self.behind for tag in one.agent.tags))

    @property
    def side_effects(self) -> bool:
        """Whether any of those who may get a task has side effects."""
        return any(one.spec.get("sideEffects") for one in self.behind)

    @property
    def idempotent(self) -> bool:
        return all(one.spec.get("idempotent") for one in self.behind)


def find(
    offers: Offers, search: str = "", tags: Collection[str] = (), may: Callable[[str], bool] = bool
) -> list[Offer]:
    """The offers that `may` be used, hold every word of `search` in what describes them, and have every tag."""
    rows = [one for one in offers.rows if may(one.ability)]
    if not search.strip() and not tags:
        return rows
    known = _texts(offers.namespace, offers.version)
    return [one for one in rows if _fits(one, [known[key] for key in one.behind if key in known], search, tags)]


def tags_of(offers: Offers, rows: Iterable[Offer]) -> dict[str, int]:
    """How many of these offers have each tag, the commonest first."""
    known = _texts(offers.namespace, offers.version)
    counted: dict[str, int] = {}
    for one in rows:
        for tag in {tag for key in one.behind if key in known for tag in known[key].tags}:
            counted[tag] = counted.get(tag, 0) + 1
    return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def read(namespace: str, offers: Collection[Offer]) -> list[Entry]:
    """These offers with what stands behind them; two queries for any number."""
    wanted = {key for one in offers for key in one.behind}
    rows = Capability.objects.filter(agent__namespace=namespace, agent__deleted_at=None)
    rows = rows.filter(agent__agent_id__in={agent for agent, _ in wanted}, name__in={name for _, name in wanted})
    rows = rows.select_related("agent").defer("agent__manifest", "agent__warnings")
    known = {(row.agent.agent_id, row.name): row for row in rows} if wanted else {}
    return [Entry(one, tuple(known[key] for key in one.behind if key in known)) for one in offers]


def item(entry: Entry) -> dict[str, Any]:
    """One ability in the catalog; what an agent alone could say is the first one's."""
    first, agents = entry.first, [_agent(one) for one in entry.behind]
    spec = first.spec if first else {}
    head = agents[0] if agents else dict.fromkeys(("agentId", "agentName", "capability", "version", "owner"))
    return {
        "ability": entry.ability,
        "route": "explicit" if entry.offer.explicit else "implicit",
        "strategy": entry.offer.strategy,
        "available": entry.offer.available,
        "description": entry.description,
        **head,
        "tags": entry.tags,
        "inputSchema": entry.input_schema,
        "outputSchema": entry.output_schema,
        "requestSample": entry.request_sample,
        "examples": spec.get("examples", []),
        "latencySlaMs": spec.get("latencySlaMs"),
        "sideEffects": entry.side_effects,
        "stateful": any(one.spec.get("stateful") for one in entry.behind),
        "agents": agents,
    }


def _agent(row: Capability) -> dict[str, Any]:
    return {
        "agentId": row.agent.agent_id,
        "agentName": row.agent.display_name,
        "capability": row.name,
        "version": row.agent.version,
        "owner": row.agent.owner,
        "tags": row.agent.tags,
    }


def _fits(offer: Offer, behind: list[Text], search: str, tags: Collection[str]) -> bool:
    has = frozenset[str]().union(*(one.tags for one in behind))
    words = "\n".join([folded(offer.ability), *(one.words for one in behind)])
    return has.issuperset(tags) and matches(search, words)


@functools.lru_cache(maxsize=SEARCHES_KEPT)
def _texts(namespace: str, version: int) -> dict[tuple[str, str], Text]:
    """What is searched, by (agent id, capability), read once for each version of the namespace."""
    rows = Capability.objects.filter(agent__namespace=namespace, agent__deleted_at=None)
    columns = ("agent__agent_id", "name", "description", "agent__display_name", "agent__tags")
    return {
        (agent_id, name): Text(folded("\n".join([name, about, display_name, agent_id, *tags])), frozenset(tags))
        for agent_id, name, about, display_name, tags in rows.values_list(*columns)
    }

"""One agent as the console shows it: each instance's state and why, the score's parts, probes drawn, moves of state."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from common.errors import NotFound
from insight.access import Viewer
from registry import queries
from registry.health import Probe
from registry.models import Agent, Instance, StateChange
from registry.services import scoring
from registry.services.scoring import Shown
from routing import breaker
from routing.breaker import InstanceBreaker

PAGE = 20
HEIGHT = 60.0
LEAST_MS = 1.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A probe as a bar: `left` and `width` in per cent, `top` and `height` in units of a plot `HEIGHT` high."""

    left: float
    width: float
    top: float
    height: float
    probe: Probe

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.probe.at, UTC)


@dataclass(frozen=True, slots=True)
class Plot:
    """Probes, oldest first; `top_ms` is what the highest bar stands for."""

    bars: list[Bar]
    failed: int
    top_ms: float


@dataclass(frozen=True, slots=True)
class InstanceCard:
    """One instance with what is known of it."""

    row: Instance
    shown: Shown
    plot: Plot
    changes: list[StateChange]
    breaker: InstanceBreaker | None = None  # while one of its circuits is open

    @property
    def parts(self) -> list[tuple[str, float | None, float | None]]:
        """(name, value 0 to 1 or None without traffic, the same in per cent)."""
        known = self.shown.scored
        parts = (("health", known.health), ("latency", known.latency), ("success", known.success))
        return [(name, value, None if value is None else round(100 * value, 1)) for name, value in parts]


@dataclass(frozen=True, slots=True)
class AgentPage:
    """An agent and a page of its instances by id; `after` is where the next page begins."""

    agent: Agent
    cards: list[InstanceCard]
    after: str | None


def load(viewer: Viewer, namespace: str, agent_id: str, after: str, now: datetime) -> AgentPage:
    """What the person may see of it. Raises NotFound."""
    if not _may_see(viewer, namespace, agent_id):
        raise NotFound
    agent = queries.agent(namespace, agent_id)
    rows = list(queries.instances(agent).filter(instance_id__gt=after)[: PAGE + 1])
    shown, more = rows[:PAGE], len(rows) > PAGE
    known, changes = scoring.shown(agent, shown, now), queries.newest_changes(shown)
    circuits = breaker.view().started().open(namespace)
    breakers = breaker.of_agent(circuits, namespace, agent_id, now.timestamp())
    cards = [
        InstanceCard(
            row, known[row.pk], plot(known[row.pk].kept.probes), changes.get(row.pk, []), breakers.get(row.instance_id)
        )
        for row in shown
    ]
    return AgentPage(agent, cards, shown[-1].instance_id if more else None)


def plot(probes: Sequence[Probe]) -> Plot:
    """Bars as high as the probe took long; a failed one fills the height."""
    known = [probe.ms for probe in probes if probe.ok and probe.ms is not None]
    top, step = max([*known, LEAST_MS]), 100 / max(len(probes), 12)
    bars = []
    for place, probe in enumerate(probes):
        height = HEIGHT if not probe.ok else max(2.0, HEIGHT * (probe.ms or 0.0) / top)
        bars.append(Bar(round(place * step, 2), round(step * 0.8, 2), HEIGHT - height, round(height, 1), probe))
    return Plot(bars, sum(not probe.ok for probe in probes), top)


def _may_see(viewer: Viewer, namespace: str, agent_id: str) -> bool:
    if viewer.agents is not None:
        return (namespace, agent_id) in viewer.agents
    return viewer.namespaces is None or namespace in viewer.namespaces

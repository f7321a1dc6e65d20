"""What whoever watches the catalog hears: a name, and a document that says who, what, and when."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from common.clock import rfc3339
from registry.models import Agent, Instance, StateChange


class News(NamedTuple):
    """One thing that happened."""

    event: str
    document: dict[str, Any]


def of_agent(event: str, agent: Agent, at: datetime, **more: Any) -> News:
    """`agent.registered`, `agent.changed` (another manifest) or `agent.deleted`."""
    about = {"agentId": agent.agent_id, "revision": agent.revision, "version": agent.version}
    return News(event, {"at": rfc3339(at), **about, **more})


def of_maintenance(agent: Agent, at: datetime) -> News:
    """Maintenance has begun or ended."""
    return News("agent.maintenance", {"at": rfc3339(at), "agentId": agent.agent_id, "on": agent.maintenance})


def of_instance(event: str, agent_id: str, row: Instance, at: datetime) -> News:
    """`instance.registered`, `instance.changed` (place, weight, draining) or `instance.left`."""
    about = {"agentId": agent_id, "instanceId": row.instance_id, "state": row.state, "draining": row.draining}
    return News(event, {"at": rfc3339(at), **about})


def of_state(agent_id: str, row: Instance, before: str, at: datetime) -> News:
    """`instance.state`: it was in state `before`."""
    return _moved(agent_id, row.instance_id, before, row.state, row.reason, at)


def of_moves(moves: Iterable[StateChange]) -> list[News]:
    """The same, of changes that were just written; one query."""
    moves = list(moves)
    rows = Instance.objects.filter(pk__in=[move.instance_id for move in moves])
    names = {pk: (agent, instance) for pk, agent, instance in rows.values_list("pk", "agent__agent_id", "instance_id")}
    return [
        _moved(*names[move.instance_id], move.from_state, move.to_state, move.reason, move.at)
        for move in moves
        if move.instance_id in names
    ]


def _moved(agent_id: str, instance_id: str, before: str, after: str, reason: str, at: datetime) -> News:
    about = {"agentId": agent_id, "instanceId": instance_id, "from": before or None, "to": after, "reason": reason}
    return News("instance.state", {"at": rfc3339(at), **about})


def of_route(change: str, ability: str, at: datetime) -> News:
    """`route.created`, `route.changed` or `route.deleted`."""
    return News(f"route.{change}", {"at": rfc3339(at), "ability": ability})

"""Breakers as people and documents see them. Pure; times given are seconds since the epoch."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.clock import rfc3339
from routing.breaker.rule import Circuit, Key, Phase, is_barred, phase


@dataclass(frozen=True, slots=True)
class Shown:
    """A circuit that is not closed: since when, and when a trial may be made at the earliest."""

    state: Phase
    since: dt.datetime
    trial_at: dt.datetime
    on_trial: bool  # somebody's task is just now
    ability: str = ""  # of one client's circuit
    client: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return {
            "state": self.state.value,
            "since": rfc3339(self.since),
            "trialAt": rfc3339(self.trial_at),
            "onTrial": self.on_trial,
        }


@dataclass(frozen=True, slots=True)
class InstanceBreaker:
    """An instance's own circuit, None while it is closed, and those of single clients that are not."""

    own: Shown | None = None
    clients: tuple[Shown, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        closed = {"state": Phase.CLOSED.value, "since": None, "trialAt": None, "onTrial": False}
        return {
            **(self.own.document if self.own else closed),
            "clients": [{"ability": one.ability, "client": one.client, **one.document} for one in self.clients],
        }


def of_agent(
    circuits: Mapping[Key, Circuit], namespace: str, agent_id: str, now: float, client: str | None = None
) -> dict[str, InstanceBreaker]:
    """By instance id, for those that have an open circuit; with `client` that one's alone, beside the instances'."""
    found: dict[str, InstanceBreaker] = {}
    for key, circuit in sorted(circuits.items()):
        if key[:2] != (namespace, agent_id) or (client is not None and key.client not in ("", client)):
            continue
        before, one = found.get(key.instance_id, InstanceBreaker()), shown(key, circuit, now)
        if key.client:
            found[key.instance_id] = InstanceBreaker(before.own, (*before.clients, one))
        else:
            found[key.instance_id] = InstanceBreaker(one, before.clients)
    return found


def shown(key: Key, circuit: Circuit, now: float) -> Shown:
    """A circuit that is not closed."""
    state = phase(circuit, now)
    return Shown(
        state,
        dt.datetime.fromtimestamp(circuit.opened, dt.UTC),
        dt.datetime.fromtimestamp(circuit.until, dt.UTC),
        state == Phase.HALF_OPEN and is_barred(circuit, now),
        key.ability,
        key.client,
    )

"""Which instances of an ability breakers keep a task from: never so many that too few are left. Pure."""

from collections.abc import Iterator, Mapping

from registry.states import InstanceState
from routing.breaker.rule import Circuit, Key, is_barred
from routing.snapshot.model import Ability

NOBODY: frozenset[tuple[str, str]] = frozenset()


def barred(
    circuits: Mapping[Key, Circuit], namespace: str, ability: Ability, client: str, now: float
) -> frozenset[tuple[str, str]]:
    """(agent id, instance id) of those that may not be sent to; `circuits` are the namespace's open ones.

    Together with those that passive health has ejected they are at most half of the ability's instances, or one where
    there is but one: of more, those that opened last are barred.
    """
    if not circuits:
        return NOBODY
    present, ejected, opened = 0, 0, []
    for candidate in ability.candidates:
        for one in candidate.agent.instances:
            ejected += one.ejected
            present += one.ejected or one.state != InstanceState.OFFLINE
            found = [circuits[key] for key in keys_of(namespace, one.key, ability.name, client) if key in circuits]
            if any(is_barred(circuit, now) for circuit in found):
                opened.append((max(circuit.opened for circuit in found), one.key))
    room = max(1, present // 2) - ejected
    if len(opened) <= room:
        return frozenset(key for _, key in opened)
    return frozenset(key for _, key in sorted(opened, reverse=True)[: max(0, room)])


def half_open(
    circuits: Mapping[Key, Circuit], namespace: str, instance: tuple[str, str], ability: str, client: str, now: float
) -> list[Key]:
    """The circuits for which a task that is sent to this instance is the trial; none where it is sent although they
    are open, as too few others are left."""
    if not circuits:
        return []
    keys = [key for key in keys_of(namespace, instance, ability, client) if key in circuits]
    return [] if any(is_barred(circuits[key], now) for key in keys) else keys


def keys_of(namespace: str, instance: tuple[str, str], ability: str, client: str) -> Iterator[Key]:
    """The circuits that a call goes through: the instance's own, and its one for this client's tasks of the ability."""
    yield Key(namespace, *instance)
    yield Key(namespace, *instance, ability, client)

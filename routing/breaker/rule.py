"""The breaker's rule: what a circuit is, and what a result does to it. Pure; times are seconds since the epoch.

CLOSED     results are counted; too many failures open it
OPEN       nobody is sent, until the cool-down that began with the opening is over
HALF_OPEN  one trial at a time: its success closes the circuit, its failure opens it anew
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import msgspec

SLICES = 10  # parts that the window slides by
EXTERNAL_CONSECUTIVE = 5  # failures in a row that agents of others are forgiven before
FAILED_KEPT = 200  # failed tasks that are remembered, so that their retries do not count again
ANYBODY = "*"  # failures that no single client can be the cause of


class Key(NamedTuple):
    """A circuit: an instance's own, or with ability and client what it is for that client's tasks of that ability."""

    namespace: str
    agent_id: str
    instance_id: str
    ability: str = ""
    client: str = ""


class Phase(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True, slots=True)
class Figures:
    """When a circuit opens and for how long; of a route, with the defaults filled in."""

    failure_share: float = 0.5
    min_volume: int = 20
    window_s: float = 300.0
    open_s: float = 30.0
    consecutive: int = 3


DEFAULT = Figures()


@dataclass(frozen=True, slots=True)
class Result:
    """One call's end. `ok` is None where it says nothing of the instance; `whose` names the client that a failure may
    be due to, or ANYBODY."""

    task: int
    ok: bool | None
    sent_at: float
    at: float
    whose: str = ANYBODY


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """Results of one part of the window."""

    began: float
    ok: int = 0
    failed: int = 0
    whose: str = ""  # of its failures


class Circuit(msgspec.Struct, frozen=True, array_like=True):
    """One breaker's memory; `opened` is 0 while it is closed. `trial` is the task that is on trial, until when at most
    it keeps others from being."""

    slices: tuple[Slice, ...] = ()
    run: int = 0  # failures in a row …
    whose: str = ""  # … and of whom
    failed: tuple[int, ...] = ()
    closed: float = 0.0  # when it closed last: what was sent before says nothing any more
    opened: float = 0.0
    until: float = 0.0  # end of the cool-down
    trial: int = 0
    trial_until: float = 0.0


NEW = Circuit()


def figures(given: Mapping[str, float], *, external: bool) -> Figures:
    """The figures of a route's `breaker`; external agents are given two failures more unless the route says."""
    return Figures(
        failure_share=given.get("failureShare", DEFAULT.failure_share),
        min_volume=int(given.get("minVolume", DEFAULT.min_volume)),
        window_s=given.get("windowMs", DEFAULT.window_s * 1000) / 1000,
        open_s=given.get("openMs", DEFAULT.open_s * 1000) / 1000,
        consecutive=int(given.get("consecutive", EXTERNAL_CONSECUTIVE if external else DEFAULT.consecutive)),
    )


def phase(circuit: Circuit, now: float) -> Phase:
    if not circuit.opened:
        return Phase.CLOSED
    return Phase.OPEN if now < circuit.until else Phase.HALF_OPEN


def is_barred(circuit: Circuit, now: float) -> bool:
    """Whether nobody may be sent just now: it is open, or another task is on trial."""
    found = phase(circuit, now)
    return found == Phase.OPEN or (found == Phase.HALF_OPEN and bool(circuit.trial) and now < circuit.trial_until)


def on_trial(circuit: Circuit, task: int, now: float, until: float) -> Circuit | None:
    """The circuit with this task on trial until then at most; None where it may not be. A closed one stays as it is,
    and a task that is on trial already, as the answer to that was lost, stays so."""
    if is_barred(circuit, now) and not (circuit.trial == task and phase(circuit, now) == Phase.HALF_OPEN):
        return None
    if not circuit.opened:
        return circuit
    return msgspec.structs.replace(circuit, trial=task, trial_until=until)


def counted(circuit: Circuit, result: Result, figures: Figures) -> Circuit:
    """The circuit after a result."""
    if circuit.opened:
        return _tried(circuit, result, figures)
    if result.ok is None or result.sent_at < circuit.closed:
        return circuit
    circuit = _slid(circuit, result.at - figures.window_s)
    if result.ok:
        return _succeeded(circuit, result, figures)
    if result.task in circuit.failed:
        return circuit
    circuit = _failed(circuit, result, figures)
    return _opened(circuit, result.at, figures) if _is_too_much(circuit, figures) else circuit


def _tried(circuit: Circuit, result: Result, figures: Figures) -> Circuit:
    """Only the task on trial has a say, or what was fetched after the cool-down while nobody is; results of calls from
    before come too late."""
    was_fetched = not circuit.trial and result.sent_at >= circuit.until
    if result.task != circuit.trial and not was_fetched:
        return circuit
    if result.ok is None:  # no proof of anything: the next one may try
        return msgspec.structs.replace(circuit, trial=0, trial_until=0.0)
    return Circuit(closed=result.at) if result.ok else _opened(circuit, result.at, figures)


def _opened(circuit: Circuit, at: float, figures: Figures) -> Circuit:
    return Circuit(closed=circuit.closed, opened=at, until=at + figures.open_s)


def _slid(circuit: Circuit, since: float) -> Circuit:
    """Without what is older than the window."""
    if not circuit.slices or circuit.slices[0].began > since:
        return circuit
    slices = tuple(one for one in circuit.slices if one.began > since)
    return msgspec.structs.replace(circuit, slices=slices) if slices else Circuit(closed=circuit.closed)


def _succeeded(circuit: Circuit, result: Result, figures: Figures) -> Circuit:
    """A task that failed here before was counted then; that it went well at last ends the row all the same."""
    if result.task not in circuit.failed:
        circuit = _added(circuit, result, figures)
    return msgspec.structs.replace(circuit, run=0, whose="") if circuit.run else circuit


def _failed(circuit: Circuit, result: Result, figures: Figures) -> Circuit:
    return msgspec.structs.replace(
        _added(circuit, result, figures),
        run=circuit.run + 1,
        whose=_merged(circuit.whose, result.whose),
        failed=(*circuit.failed[-FAILED_KEPT + 1 :], result.task),
    )


def _added(circuit: Circuit, result: Result, figures: Figures) -> Circuit:
    slices = circuit.slices
    if not slices or result.at - slices[-1].began >= figures.window_s / SLICES:
        slices = (*slices, Slice(result.at))
    last = slices[-1]
    if result.ok:
        last = msgspec.structs.replace(last, ok=last.ok + 1)
    else:
        last = msgspec.structs.replace(last, failed=last.failed + 1, whose=_merged(last.whose, result.whose))
    return msgspec.structs.replace(circuit, slices=(*slices[:-1], last))


def _merged(one: str, other: str) -> str:
    if not one or one == other:
        return other
    return one if not other else ANYBODY


def _is_too_much(circuit: Circuit, figures: Figures) -> bool:
    if circuit.run >= figures.consecutive and circuit.whose == ANYBODY:
        return True
    failed = sum(one.failed for one in circuit.slices)
    total = failed + sum(one.ok for one in circuit.slices)
    if total < figures.min_volume or failed <= figures.failure_share * total:
        return False
    whose = ""
    for one in circuit.slices:
        whose = _merged(whose, one.whose)
    return whose == ANYBODY

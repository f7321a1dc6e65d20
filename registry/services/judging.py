"""Judging instances by their evidence, and moving them: conditionally, with the reason, told to every process."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from django.db import transaction

from common.clock import parse_time
from common.database import hot_cursor, robust
from registry import instance_cache
from registry.health import EJECTED, Evidence, HealthSettings, Verdict, complaint_of, judge
from registry.health.evidence import failures_in_a_row
from registry.models import Agent, Instance, StateChange
from registry.news import of_moves
from registry.services import changes, evidence, figures, hook_events, listening
from registry.services.evidence import Kept
from registry.states import InstanceState

log = logging.getLogger(__name__)

JUDGED_AT_ONCE = 1000
FEWEST_FOR_SUSPICION = 4  # a prober of fewer may well see all of them fail

_MOVE = """
UPDATE registry_instance AS i SET state = m.new, state_since = %(now)s, reason = m.reason
FROM unnest(%(ids)s::bigint[], %(old)s::text[], %(new)s::text[], %(reasons)s::text[]) AS m (id, old, new, reason)
WHERE i.id = m.id AND i.state = m.old AND i.left_at IS NULL
RETURNING i.id"""


class Trust(Enum):
    """Whether a prober's failures are believed."""

    GOOD = "good"
    OPEN = "open"  # what it finds next will tell
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Case:
    """One instance before the judge."""

    pk: int
    agent_pk: int
    namespace: str
    state: str
    evidence: Evidence
    settings: HealthSettings


@dataclass(frozen=True, slots=True)
class Move:
    """What the judge wants done."""

    case: Case
    verdict: Verdict

    @property
    def is_ejection(self) -> bool:
        return self.verdict.by in ("calls", "contested")


def judge_dirty(now: datetime) -> int:
    """Judge whoever there is new evidence of; returns how many moved."""
    return judge_instances(evidence.take_dirty(JUDGED_AT_ONCE), now)


def judge_instances(instance_pks: Sequence[int], now: datetime) -> int:
    """Judge these; returns how many moved."""
    cases = _cases(instance_pks, now) if instance_pks else []
    wanted = [Move(case, judge(case.evidence, case.state, case.settings, now)) for case in cases]
    moves = _without_suspects([move for move in wanted if move.verdict.state != move.case.state], now)
    return _eject([move for move in moves if move.is_ejection], now) + _carry_out(
        [move for move in moves if not move.is_ejection], now
    )


def evidence_of(row: Instance, kept: Kept, settings: HealthSettings, *, silence_counts: bool = True) -> Evidence:
    """The evidence from an instance's row and what is kept of it."""
    said = row.heartbeat or {}
    good_since = said.get("goodSince")
    row_heard = row.last_heard_at.timestamp() if row.last_heard_at else None
    return Evidence(
        state_since=row.state_since.timestamp(),
        heard_at=max((at for at in (row_heard, kept.heard_at) if at is not None), default=None),
        good_since=parse_time(good_since).timestamp() if good_since else None,
        complaint=complaint_of(said, settings.resources),
        beats=kept.beats,
        probes=kept.probes,
        calls=kept.calls,
        baseline_ms=kept.baseline_ms,
        slate_since=kept.slate_since,
        left=row.left_at is not None,
        listens=not row.implicit,
        silence_counts=silence_counts,
    )


def silence_counts(now: datetime) -> bool:
    """Whether not being heard means anything: only if web processes listened all the time, and if what they heard is
    known here: from Redis, unless it came back empty meanwhile, and from the rows once it has been away for as long."""
    known_for_s = now.timestamp() - evidence.since_when(now)
    return min(known_for_s, listening.heard_for_s(now)) >= figures.platform().lost_after_s


def _cases(instance_pks: Collection[int], now: datetime) -> list[Case]:
    rows = list(
        Instance.objects.filter(pk__in=instance_pks, left_at=None, agent__deleted_at=None)
        .select_related("agent")
        .only("state", "state_since", "heartbeat", "last_heard_at", "left_at", "implicit", "agent__namespace_id",
              "agent__revision")
    )  # fmt: skip
    settings = figures.of_agents((row.agent_id, row.agent.revision) for row in rows)
    kept, counts = evidence.read([row.pk for row in rows]), silence_counts(now)
    return [
        Case(
            pk=row.pk,
            agent_pk=row.agent_id,
            namespace=row.agent.namespace_id,
            state=row.state,
            evidence=evidence_of(row, kept[row.pk], settings[row.agent_id], silence_counts=counts),
            settings=settings[row.agent_id],
        )
        for row in rows
    ]


def _without_suspects(moves: list[Move], now: datetime) -> list[Move]:
    """Judge again, without their probes, whom a prober would take out that fails everywhere."""
    by_prober: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        if move.verdict.by in ("probes", "contested"):
            by_prober[move.case.evidence.probes[-1].prober].append(move)
    for prober, doubtful in by_prober.items():
        trust = _trust_in(prober, min(_failing_since(move.case) for move in doubtful), now)
        if trust == Trust.GOOD:
            continue
        moves = [move for move in moves if move not in doubtful]
        if trust == Trust.OPEN:
            evidence.mark([move.case.pk for move in doubtful])
            continue
        evidence.suspect(prober)
        log.warning("prober %s is suspect: most of what it probes fails; that changes nothing", prober)
        for case in (move.case for move in doubtful):
            again = Move(case, judge(replace(case.evidence, suspect=True), case.state, case.settings, now))
            moves += [again] if again.verdict.state != case.state else []
    return moves


def _trust_in(prober: str, since: float, now: datetime) -> Trust:
    """Whether over half of the well instances that it probed in this round fail. While some were last probed before
    the failures began at `since`, and theirs would decide, that is open: they are probed within an interval."""
    probes = evidence.round_of(prober, now)
    rows = Instance.objects.filter(pk__in=probes, left_at=None).exclude(state=InstanceState.OFFLINE)
    well = [probes[pk] for pk in rows.values_list("pk", flat=True)]
    failing = sum(not probe.ok for probe in well)
    since_then = sum(probe.at >= since for probe in well)
    if len(well) < FEWEST_FOR_SUSPICION or 2 * failing <= since_then:
        return Trust.GOOD
    return Trust.NONE if 2 * failing > len(well) else Trust.OPEN


def _failing_since(case: Case) -> float:
    return failures_in_a_row(case.evidence.probes)[0].at


def _carry_out(moves: Iterable[Move], now: datetime) -> int:
    by_namespace: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        by_namespace[move.case.namespace].append(move)
    return sum(_move(namespace, wanted, now) for namespace, wanted in by_namespace.items())


@robust(patience=5.0)
def _move(namespace: str, moves: list[Move], now: datetime) -> int:
    """Make the moves of one namespace whose instances are still in the state that was judged."""
    with transaction.atomic():
        return _moved(namespace, moves, now)


def _moved(namespace: str, moves: list[Move], now: datetime) -> int:
    """The same within the caller's transaction, as its last step."""
    moves = sorted(moves, key=lambda move: move.case.pk)
    values = {
        "now": now,
        "ids": [move.case.pk for move in moves],
        "old": [str(move.case.state) for move in moves],
        "new": [str(move.verdict.state) for move in moves],
        "reasons": [move.verdict.reason for move in moves],
    }
    with hot_cursor() as cursor:
        cursor.execute(_MOVE, values)
        done = {pk for (pk,) in cursor.fetchall()}
    if not done:
        return 0
    written = StateChange.objects.bulk_create(
        StateChange(
            instance_id=move.case.pk, at=now, from_state=move.case.state, to_state=move.verdict.state,
            reason=move.verdict.reason,
        )
        for move in moves if move.case.pk in done
    )  # fmt: skip
    hook_events.fire_changes(written, now)
    changes.touch(namespace, of_moves(written))
    evidence.begin_anew([move.case.pk for move in moves if move.verdict.state == InstanceState.NEW], now)
    tell(done)
    return len(done)


def _eject(moves: Iterable[Move], now: datetime) -> int:
    by_agent: dict[tuple[int, str], list[Move]] = defaultdict(list)
    for move in moves:
        by_agent[move.case.agent_pk, move.case.namespace].append(move)
    return sum(_eject_some(*key, wanted, now) for key, wanted in by_agent.items())


@robust(patience=5.0)
def _eject_some(agent_pk: int, namespace: str, moves: list[Move], now: datetime) -> int:
    """Take out at most half of an agent's instances, and so at most half of any ability's; the rest get less traffic.

    The agent's row is locked, so that two judges cannot each take out the half that the other leaves.
    """
    with transaction.atomic():
        Agent.objects.select_for_update(no_key=True).filter(pk=agent_pk).first()
        rows = list(Instance.objects.filter(agent=agent_pk, left_at=None).values_list("pk", "state", "reason"))
        ejected = sum(state == InstanceState.OFFLINE and reason.startswith(EJECTED) for _, state, reason in rows)
        present = sum(state != InstanceState.OFFLINE for _, state, _ in rows) + ejected
        room = max(0, present // 2 - ejected)
        allowed = moves[:room] + [kept for move in moves[room:] if (kept := _kept_in(move)) is not None]
        return _moved(namespace, allowed, now) if allowed else 0


def _kept_in(move: Move) -> Move | None:
    if move.case.state == InstanceState.DEGRADED:
        return None
    why = move.verdict.reason.removeprefix(EJECTED)
    return Move(move.case, Verdict(InstanceState.DEGRADED, f"{why}; kept in, as too few would be left"))


def tell(instance_pks: Collection[int]) -> None:
    """Once committed, have heartbeats compared with the new rows; within a transaction."""
    for pk in instance_pks:
        instance_cache.forget(pk)

    def told() -> None:
        for pk in instance_pks:
            instance_cache.forget(pk)
        evidence.row_changed(instance_pks)

    transaction.on_commit(told)

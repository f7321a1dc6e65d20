"""What nobody ends by itself: overdue tasks, attempts whose answer never came, and what dead workers held.

Every step is bounded, and two sweeps at once do no harm: a change counts only while its row still looks as it was read.
"""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from common.database import hot_cursor, robust
from routing import queue
from routing.channels.entries import UNREAD
from routing.policy import RouteFacts, decide
from routing.services import crashes, good, moves, streams, workers
from routing.services.facts import AttemptFacts, route_facts, task_facts
from routing.services.fallback import Falling, instead
from routing.services.moves import SENT, AttemptEnd, Ending, Match, Move
from routing.services.observe import Ended, observe
from routing.services.receipt import RECEIPT_WITHIN
from routing.services.settle import LOST, move_of
from routing.states import Certainty, TaskError, TaskState
from routing.trip import Await, Degrade, GiveUp, Outcome, Settlement

LIMIT = 500
# A sweep that outlived an outage would judge workers by leases that they could not renew either.
_PATIENCE_S = 2.0
_ROUNDS = 20
LOOKUP = "LOOKUP"  # what a task waits for that may have run, while its agent's lookup does not answer
_FORGOTTEN = dt.timedelta(seconds=15)
_WORKERS_TURN = dt.timedelta(seconds=2)  # the worker that waits for the answer knows better how the attempt ended

_OVERDUE = """
SELECT t.id, t.state, t.budget_at < t.expires_at, e.detail ->> 'reason', t.namespace, t.client, t.ability,
  b.request, t.attempts, t.deadline_at, t.fallback
FROM routing_task t JOIN routing_taskbody b ON b.task_id = t.id
LEFT JOIN routing_event e ON e.task_id = t.id AND e.seq = t.seq AND e.event = 'WAITING'
WHERE t.outcome IS NULL AND t.deadline_at <= %(now)s AND (%(id)s::uuid IS NULL OR t.id = %(id)s::uuid)
  AND (t.deadline_at <= %(late)s OR NOT EXISTS (SELECT FROM routing_attempt a
    WHERE a.task_id = t.id AND a.number = t.attempts AND a.ended_at IS NULL AND a.worker IS NOT NULL))
ORDER BY t.deadline_at LIMIT %(limit)s"""
_ATTEMPT = """
SELECT a.task_id, a.number, a.key, a.worker, a.received_at, t.namespace, t.ability, a.agent_id, a.capability,
  t.attempts, t.max_attempts, t.created_at, t.deadline_at, t.expires_at, b.request, a.instance_id, t.client,
  a.sent_at, t.fallback
FROM routing_attempt a JOIN routing_task t ON t.id = a.task_id JOIN routing_taskbody b ON b.task_id = a.task_id
WHERE a.ended_at IS NULL AND t.outcome IS NULL AND t.attempts = a.number AND {which}
LIMIT %(limit)s"""
# A living worker ends its own attempts in time; one that broke off must not keep a task open until the task's deadline.
_UNANSWERED = _ATTEMPT.format(which="a.deadline_at <= %(now)s AND (a.worker IS NULL OR a.deadline_at <= %(forgotten)s)")
_UNACKNOWLEDGED = _ATTEMPT.format(
    which="a.worker IS NULL AND a.channel = 'pull' AND a.received_at IS NULL AND a.sent_at <= %(unheard)s"
)
_UNREAD = _ATTEMPT.format(
    which="a.worker IS NULL AND a.channel = 'stream' AND a.received_at IS NULL AND a.sent_at <= %(unheard)s"
)
_HELD = _ATTEMPT.format(which="a.worker = ANY(%(boots)s::uuid[])")


@dataclass(slots=True)
class Swept:
    """How many tasks were ended for want of time, had an attempt closed, and went back to waiting."""

    ended: list[uuid.UUID] = field(default_factory=list)
    unacknowledged: int = 0
    timed_out: int = 0
    lost: int = 0
    given_back: int = 0


def sweep(now: dt.datetime, node: str | None = None) -> Swept:
    """End what is overdue, close attempts whose time is over, take over from dead workers."""
    swept = Swept()
    swept.given_back = _repeat(lambda: _give_back(now, node))
    swept.lost = _repeat(lambda: _close_lost(now, node))
    swept.unacknowledged = _repeat(lambda: _close_unacknowledged(now, node))
    swept.unacknowledged += _repeat(lambda: _close_unread(now, node))
    swept.timed_out = _repeat(lambda: _close_unanswered(now, node))
    _repeat(lambda: _end_overdue(now, node, swept))
    streams.mend(now)
    good.forget(now)
    return swept


def expire(task_id: uuid.UUID, now: dt.datetime) -> bool:
    """End this task if its time is over, for a reader who must not see it open; True when this call ended it."""
    ends = [_end(row, now) for row in _overdue(now, task_id)]
    return any(one.applied for one in moves.apply(ends)) if ends else False


def _repeat(step: Callable[[], int]) -> int:
    """Do a bounded step until there is nothing more to do, or others are at it too."""
    total = 0
    for _ in range(_ROUNDS):
        done = step()
        total += done
        if done < LIMIT:
            break
    return total


def _end_overdue(now: dt.datetime, node: str | None, swept: Swept) -> int:
    rows = _overdue(now, None)
    settled = moves.apply([_end(row, now) for row in rows], node=node) if rows else []
    done = [one.task_id for one in settled if one.applied]
    swept.ended += done
    return len(done)


@robust(patience=_PATIENCE_S)
def _overdue(now: dt.datetime, task_id: uuid.UUID | None) -> list[tuple[Any, ...]]:
    values = {"now": now, "late": now - _WORKERS_TURN, "id": task_id, "limit": LIMIT}
    with hot_cursor() as cursor:
        return cursor.execute(_OVERDUE, values).fetchall()


def _end(row: tuple[Any, ...], now: dt.datetime) -> Move:
    """The end of an overdue task: what it falls back on without an agent, else that its time was over."""
    task_id, state, by_budget, waited_for, namespace, client, ability, request, attempts, deadline_at, fallback = row
    own = _over(by_budget=by_budget, waited_for=None if state in SENT else waited_for)
    before = msgspec.json.decode(fallback) if fallback else None
    falling = Falling(namespace, client, ability, bytes(request), attempts, deadline_at, before, side_effects=False)
    after = instead(own, falling, None, now)
    if isinstance(after, Degrade):
        closing = AttemptEnd("TIMEOUT", code=own.code, message=own.message) if state in SENT else None
        result = (after.data, None, None, after.by)
        return Move(task_id, TaskState.SUCCEEDED, now, Match.SEQ, attempt=closing, result=result, detail=after.detail)
    end = after if isinstance(after, GiveUp) else own
    error = Ending(end.code, end.message, end.retryable, end.details)
    return Move(task_id, end.state, now, Match.SEQ, error=error)


def _over(*, by_budget: bool, waited_for: str | None) -> GiveUp:
    """Whose time was over: the budget's or the time to live's; or nobody could take it, or said whether it ran."""
    if waited_for == LOOKUP:
        message = "It may have run and must not run twice: its agent's lookup did not say before its time was over."
        details = {"cause": TaskError.TIMEOUT if by_budget else TaskError.EXPIRED}
        return GiveUp(TaskState.TIMEOUT, TaskError.MAYBE_RAN, message, False, details)
    if waited_for:
        code, message = TaskError.NO_INSTANCE, "Nobody could take it before its time was over."
    elif by_budget:
        code, message = TaskError.TIMEOUT, "Its time budget was used up before it was done."
    else:
        code, message = TaskError.EXPIRED, "Its time to live ended before it was done."
    return GiveUp(TaskState.TIMEOUT, code, message, retryable=True)


def _close_unanswered(now: dt.datetime, node: str | None) -> int:
    """Agents that said they have it and never came back."""
    found = _attempts(_UNANSWERED, {"now": now, "forgotten": now - _FORGOTTEN, "limit": LIMIT})
    return _close(found, _no_answer, now, node)


def _close_unacknowledged(now: dt.datetime, node: str | None) -> int:
    """Fetched by an agent that never said that it has them."""
    found = _attempts(_UNACKNOWLEDGED, {"unheard": now - RECEIPT_WITHIN, "limit": LIMIT})
    return _close(found, _no_receipt, now, node)


def _close_unread(now: dt.datetime, node: str | None) -> int:
    """Entries of streams that no receipt came for: withdrawn first, so that nobody reads them any more."""
    found = _attempts(_UNREAD, {"unheard": now - RECEIPT_WITHIN, "limit": LIMIT})
    taken = {
        one.key: streams.withdrawn((one.facts.namespace, one.facts.agent_id, one.instance_id), one.key) for one in found
    }
    known = [one for one in found if taken[one.key] is not None]  # without Redis nobody can tell; it waits
    _close(known, lambda one, at: _not_taken(taken[one.key] == UNREAD, at), now, node)
    return len(known)


def _close_lost(now: dt.datetime, node: str | None) -> int:
    dead = workers.dead()
    found = _attempts(_HELD, {"boots": dead, "limit": LIMIT}) if dead else []
    return _close(found, _worker_died, now, node)


def _give_back(now: dt.datetime, node: str | None) -> int:
    dead = workers.dead()
    if not dead:
        return 0
    crashes.end_hopeless(dead, now, node, LIMIT)
    back = workers.give_back(dead, now, LIMIT, died=True)
    queue.nudge(back)
    return len(back)


@dataclass(frozen=True, slots=True)
class _Open:
    task_id: uuid.UUID
    number: int
    key: uuid.UUID
    worker: uuid.UUID | None
    received_at: dt.datetime | None
    facts: AttemptFacts
    instance_id: str
    sent_at: dt.datetime

    @property
    def stream(self) -> tuple[str, str, str]:
        return self.facts.namespace, self.facts.agent_id, self.instance_id


@robust(patience=_PATIENCE_S)
def _attempts(statement: str, values: dict[str, Any]) -> list[_Open]:
    with hot_cursor() as cursor:
        rows = cursor.execute(statement, values).fetchall()
    return [_open(row) for row in rows]


def _open(row: tuple[Any, ...]) -> _Open:
    (
        task_id, number, key, worker, received_at, namespace, ability, agent_id, capability, attempts, max_attempts,
        created_at, deadline_at, expires_at, request, instance_id, client,
        sent_at, fallback,
    ) = row  # fmt: skip
    facts = AttemptFacts(
        namespace,
        ability,
        agent_id,
        capability,
        attempts,
        max_attempts,
        created_at,
        deadline_at,
        expires_at,
        bytes(request),
        client,
        task_id,
        msgspec.json.decode(fallback) if fallback else None,
    )
    return _Open(task_id, number, key, worker, received_at, facts, instance_id or "", sent_at)


def _no_answer(one: _Open, now: dt.datetime) -> Outcome:
    message = "The agent took the task and did not report a result in time."
    return Outcome("FAILED", Certainty.MAYBE_RAN, now, one.received_at, code=TaskError.TIMEOUT, message=message)


def _no_receipt(one: _Open, now: dt.datetime) -> Outcome:
    message = "The agent fetched the task and did not acknowledge it in time."
    return Outcome("UNACKNOWLEDGED", Certainty.MAYBE_RAN, now, code=TaskError.UNREACHABLE, message=message)


def _not_taken(is_unread: bool, now: dt.datetime) -> Outcome:
    if is_unread:
        message, certainty = "The agent did not read the task from its stream in time.", Certainty.NOT_SENT
    else:
        message, certainty = "The agent read the task and did not acknowledge it in time.", Certainty.MAYBE_RAN
    return Outcome("UNACKNOWLEDGED", certainty, now, code=TaskError.UNREACHABLE, message=message)


def _worker_died(one: _Open, now: dt.datetime) -> Outcome:
    message = "The worker that was waiting for the answer died."
    return Outcome("LOST", Certainty.MAYBE_RAN, now, one.received_at, code=TaskError.UNREACHABLE, message=message)


def _close(
    found: list[_Open], outcome_of: Callable[[_Open, dt.datetime], Outcome], now: dt.datetime, node: str | None
) -> int:
    ended = {one.task_id: Ended(one.facts, one.instance_id, outcome_of(one, now), one.sent_at) for one in found}
    ends = [move for one in found if (move := _settled(one, ended[one.task_id].outcome, now))]
    done = [one.task_id for one in moves.apply(ends, node=node) if one.applied] if ends else []
    observe([ended[one] for one in done], now)
    return len(done)


def _settled(one: _Open, outcome: Outcome, now: dt.datetime) -> Move | None:
    route: RouteFacts = route_facts(one.facts)
    if outcome.kind in LOST:  # not delivered, or our side's fault: worth a retry whatever the route lists
        route = replace(route, retryable=route.retryable | {TaskError.UNREACHABLE})
    decision = decide(outcome, task_facts(one.facts), route, now)
    if isinstance(decision, Await):
        return None
    facts = task_facts(one.facts)
    after = instead(decision, Falling.of(one.facts, one.number, side_effects=facts.side_effects), outcome, now)
    return move_of(Settlement(one.task_id, one.number, after, outcome, now, attempt_key=one.key))

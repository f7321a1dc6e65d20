"""The one statement by which attempts close and tasks leave an open state; the first final state wins.

Settling, cancelling and sweeping are all moves; they differ in how the row must look for the move to count (`Match`).
A move is computed from what was read a moment before, and the statement changes only rows that still look like that.
"""

import datetime as dt
import logging
import uuid
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec
from django.db import connection, transaction

from callbacks import services as callbacks
from callbacks.messages import Due, NewCallback
from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from common.encoding import clean_text, storable
from common.ids import sibling
from common.json import dumps
from routing import documents, endings, snapshot
from routing.fallback import SUBSTITUTE
from routing.limits import slots as limits
from routing.limits.slots import Slot
from routing.policy import end_state
from routing.services import good
from routing.services.asked import callback_ask, receiver
from routing.services.batches import UNSTORABLE, in_halves
from routing.services.node import here
from routing.states import FINAL, Certainty, TaskError, TaskState
from routing.trip import Settled

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 2000
SENT = (TaskState.DISPATCHED, TaskState.RUNNING)


class Match(StrEnum):
    """What must still be so."""

    WORKER = "worker"  # this boot id holds it, and the attempt is the one that was sent
    KEY = "key"  # the attempt of this key is the open one
    SEQ = "seq"  # nothing at all has happened since it was read


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended: SUCCEEDED, FAILED, TIMEOUT, CANCELLED or LOST."""

    outcome: str
    certainty: str | None = None  # None leaves what is on record
    code: str | None = None
    message: str | None = None
    received_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a task ended without a result."""

    code: TaskError
    message: str
    retryable: bool = False
    details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A task's way to `state`; `attempt` closes the open attempt `number`, None where none was made.

    `result` is (data as JSON, usage, cost, degraded by) of a success. `due_at` is set for RETRY_WAIT only.
    """

    task_id: uuid.UUID
    state: str
    at: dt.datetime
    match: Match
    number: int = 0
    worker: uuid.UUID | None = None
    attempt_key: uuid.UUID | None = None
    attempt: AttemptEnd | None = None
    error: Ending | None = None
    result: tuple[bytes | None, dict[str, Any] | None, dict[str, Any] | None, dict[str, Any] | None] | None = None
    due_at: dt.datetime | None = None
    timings: dict[str, int] | None = None
    event: str | None = None  # the state's name where None
    detail: dict[str, Any] | None = None

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


_FACTS = (
    "id", "namespace", "client", "correlation_id", "trace_id", "traceparent", "state", "seq", "attempts", "agent_id",
    "instance_id", "created_at", "timings", "request", "metadata", "schedule", "ability", "fallback",
)  # fmt: skip
_READ = """
SELECT t.id, t.namespace, t.client, t.correlation_id, t.trace_id, t.traceparent, t.state, t.seq, t.attempts, t.agent_id,
  t.instance_id, t.created_at, t.timings, b.request, b.metadata, c.callback_schedule, t.ability, t.fallback
FROM routing_task t JOIN routing_taskbody b ON b.task_id = t.id
LEFT JOIN registry_client c ON c.namespace = t.namespace AND c.name = t.client
WHERE t.id = ANY(%(ids)s::uuid[]) AND b.task_id = ANY(%(ids)s::uuid[]) AND t.outcome IS NULL"""

_COLUMNS = {
    "id": "uuid", "state": "text", "at": "timestamptz", "number": "int", "worker": "uuid", "key": "uuid", "seq": "int",
    "sent": "bool", "due_at": "timestamptz", "attempt_outcome": "text", "certainty": "text", "attempt_code": "text",
    "attempt_message": "text", "received_at": "timestamptz", "completed_at": "timestamptz", "error_code": "text",
    "error_message": "text", "error_retryable": "bool", "error_details": "text", "result": "bytea", "timings": "text",
    "event": "text", "detail": "text", "callback_id": "uuid",
}  # fmt: skip
_MOVE = f"""
WITH given AS (SELECT * FROM {unnest(_COLUMNS)}), locked AS MATERIALIZED (
  SELECT t.id, t.state, t.worker, t.seq, t.attempts, t.waiting FROM routing_task t
  WHERE t.id = ANY(%(id)s::uuid[]) AND t.outcome IS NULL ORDER BY t.id FOR UPDATE
), meant AS MATERIALIZED (
  SELECT g.*, l.state AS from_state, l.attempts FROM given g JOIN locked l ON l.id = g.id
  WHERE g.seq = l.seq OR (
    g.seq IS NULL AND g.number = l.attempts AND CASE WHEN g.worker IS NULL THEN
      l.state IN ('DISPATCHED', 'RUNNING') AND EXISTS (SELECT FROM routing_attempt a
        WHERE a.task_id = l.id AND a.number = g.number AND a.key = g.key AND a.task_id = ANY(%(id)s::uuid[]))
    ELSE g.worker = l.worker AND NOT l.waiting AND (l.state IN ('DISPATCHED', 'RUNNING')) = g.sent END)
), moved AS (
  UPDATE routing_task t SET state = m.state, state_since = m.at, seq = t.seq + 1, waiting = m.due_at IS NOT NULL,
    outcome = CASE WHEN m.due_at IS NULL THEN m.state END, due_at = coalesce(m.due_at, t.due_at),
    timings = t.timings || m.timings::jsonb, received_at = coalesce(t.received_at, m.received_at),
    completed_at = coalesce(m.completed_at, t.completed_at), ended_at = CASE WHEN m.due_at IS NULL THEN m.at END,
    error_code = m.error_code, error_message = m.error_message, error_retryable = m.error_retryable,
    error_details = m.error_details::jsonb,
    fallback = coalesce(m.detail::jsonb -> 'fallback', t.fallback), callback_id = coalesce(m.callback_id, t.callback_id)
  FROM meant m WHERE t.id = m.id AND t.id = ANY(%(id)s::uuid[])
  RETURNING t.id, t.seq, t.agent_id, t.instance_id, t.created_at
), closed AS (
  UPDATE routing_attempt a SET ended_at = m.at, outcome = m.attempt_outcome, code = m.attempt_code,
    message = m.attempt_message, certainty = coalesce(m.certainty, a.certainty),
    received_at = coalesce(a.received_at, m.received_at)
  FROM meant m WHERE a.task_id = m.id AND a.number = m.attempts AND a.task_id = ANY(%(id)s::uuid[])
    AND a.ended_at IS NULL AND m.attempt_outcome IS NOT NULL
  RETURNING a.task_id, CASE WHEN a.worker IS NULL THEN a.key END AS key
), body AS (
  UPDATE routing_taskbody b SET result = m.result
  FROM meant m WHERE b.task_id = m.id AND b.task_id = ANY(%(id)s::uuid[]) AND m.result IS NOT NULL
), event AS (
  INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
    elapsed_ms, detail)
  SELECT v.id, v.seq, m.at, m.event, m.from_state, m.state, nullif(m.attempts, 0), v.agent_id, v.instance_id, %(node)s,
    least(extract(epoch FROM m.at - v.created_at) * 1000, 2147483647), m.detail::jsonb
  FROM moved v JOIN meant m ON m.id = v.id
), told AS ({callbacks.creation("SELECT id FROM moved")}
)
SELECT v.id, told.id, closed.key FROM moved v LEFT JOIN told ON told.subject_id = v.id
LEFT JOIN closed ON closed.task_id = v.id"""  # noqa: S608 - made of constants


def apply(moves: Sequence[Move], *, node: str | None = None, lease_callbacks: bool = False) -> list[Settled]:
    """Make the moves that still count, each with its event, its attempt's end, its result and its callback's row.

    `lease_callbacks`: the first delivery of each callback is the caller's, who finds it in `Settled.callbacks`.
    """
    settled: list[Settled] = []
    for batch in _rounds(moves):
        settled += in_halves(
            lambda part: _apply(part, node or here(), lease_callbacks), batch, _spoiled(node, lease_callbacks)
        )
    ended = [one.task_id for one in settled if one.applied and one.state in FINAL]
    transaction.on_commit(lambda: endings.publish(ended))
    return settled


def _rounds(moves: Sequence[Move]) -> Iterable[list[Move]]:
    """Batches in which no task occurs twice, in the order given."""
    left = list(moves)
    while left:
        batch = {move.task_id: move for move in reversed(left)}
        chosen = {id(move) for move in batch.values()}
        yield sorted(batch.values(), key=lambda move: move.task_id)
        left = [move for move in left if id(move) not in chosen]


def _spoiled(node: str | None, lease: bool) -> Any:
    """What was to be stored is refused by the database: the task ends all the same, and says so."""

    def end(move: Move, error: Exception) -> list[Settled]:
        message = "its answer could not be stored"
        ending = Ending(TaskError.BAD_RESPONSE, message)
        closing = AttemptEnd("FAILED", Certainty.RAN, TaskError.BAD_RESPONSE, message) if move.attempt else None
        bare = replace(move, result=None, due_at=None, timings=None, event=None, detail=None)
        try:
            return _apply([replace(bare, state=TaskState.FAILED, attempt=closing, error=ending)], node or here(), lease)
        except UNSTORABLE:  # a row that nothing can be done about must not keep its neighbours from their ends
            log.exception("a task cannot be ended: %s", move.task_id)
            return [Settled(move.task_id, applied=False)]

    return end


@robust
def _apply(moves: list[Move], node: str, lease: bool) -> list[Settled]:
    facts = _read([move.task_id for move in moves])
    known = [move for move in moves if move.task_id in facts]
    written = [_written(move, facts[move.task_id]) for move in known]
    told = [callback for _, callback in written if callback]
    moved = _write([row for row, _ in written], told, node, lease) if known else {}
    _end_slots({task_id: key for task_id, (_, key) in moved.items() if key}, facts)
    good.remember([facts[m.task_id] for m in known if m.task_id in moved and m.result and not m.result[3]], moves[0].at)
    made = [one for one in told if one.subject_id in moved and moved[one.subject_id][0] == one.id] if lease else []
    due: dict[uuid.UUID, tuple[Due, ...]] = {one.subject_id: (one,) for one in callbacks.first_tries(made)}
    return [
        Settled(m.task_id, m.task_id in moved, m.state if m.task_id in moved else None, due.get(m.task_id, ()))
        for m in moves
    ]


def _write(
    rows: list[tuple[Any, ...]], told: list[NewCallback], node: str, lease: bool
) -> dict[uuid.UUID, tuple[uuid.UUID | None, uuid.UUID | None]]:
    """The tasks that moved, each with its callback if one was made, and the key of an attempt that nobody held."""
    given = callbacks.creation_values(told, leased=lease, now=max(row[2] for row in rows))
    # By itself one statement is one transaction; within a caller's, a refused value must leave the rest of it standing.
    within = transaction.atomic() if connection.in_atomic_block else nullcontext()
    with within, hot_cursor() as cursor:
        cursor.execute(_MOVE, {**arrays(_COLUMNS, rows), **given, "node": node}, prepare=True)
        return {task_id: (callback_id, key) for task_id, callback_id, key in cursor.fetchall()}


def _end_slots(keys: dict[uuid.UUID, uuid.UUID], facts: dict[uuid.UUID, dict[str, Any]]) -> None:
    """Give back, after the commit, the slots of attempts that agents worked on by themselves; a call's own slot is its
    worker's to give back."""
    ended = [_slot(key, facts[task_id]) for task_id, key in keys.items()]
    if ended:
        transaction.on_commit(lambda: limits.end_soon(ended))


def _slot(key: uuid.UUID, facts: dict[str, Any]) -> Slot:
    instance = (facts["namespace"], facts["agent_id"] or "", facts["instance_id"] or "")
    return Slot(key.hex, instance, (facts["namespace"], _serving(facts)))


def _read(ids: list[uuid.UUID]) -> dict[uuid.UUID, dict[str, Any]]:
    with hot_cursor() as cursor:
        cursor.execute(_READ, {"ids": ids}, prepare=True)
        return {row[0]: dict(zip(_FACTS, row, strict=True)) for row in cursor.fetchall()}


def _written(move: Move, facts: dict[str, Any]) -> tuple[tuple[Any, ...], NewCallback | None]:
    """The row for the statement, and the callback that goes with it."""
    result = _result(move, facts) if move.result else None
    callback = _callback(move, facts, result) if move.is_final else None
    error = move.error
    attempt = move.attempt or (_closing(error) if facts["state"] in SENT else AttemptEnd(""))
    was_sent = move.attempt is not None or (move.number > 0 and facts["state"] in SENT)
    is_answered = move.state == TaskState.SUCCEEDED or (move.is_final and attempt.certainty == Certainty.RAN)
    row = (
        move.task_id, move.state, move.at, move.number or facts["attempts"], move.worker, move.attempt_key,
        facts["seq"] if move.match == Match.SEQ else None, was_sent, move.due_at,
        attempt.outcome or None, attempt.certainty, attempt.code, clean(attempt.message), attempt.received_at,
        move.at if is_answered else None, error and error.code, error and clean(error.message),
        error and error.retryable, dumps(storable(error.details)).decode() if error and error.details else None,
        result, dumps(move.timings or {}).decode(), move.event or move.state, _detail(move),
        callback and callback.id,
    )  # fmt: skip
    return row, callback


def _closing(error: Ending | None) -> AttemptEnd:
    """How an attempt ends whose task ended over it."""
    code = error.code if error else TaskError.CANCELLED
    ended = {TaskState.TIMEOUT: "TIMEOUT", TaskState.CANCELLED: "CANCELLED"}.get(end_state(code), "FAILED")
    return AttemptEnd(ended, code=code, message=error.message if error else None)


def _serving(facts: dict[str, Any]) -> str:
    """The ability that had the task last: its own, or a substitute."""
    ability = msgspec.json.decode(facts["fallback"])["ability"] if facts["fallback"] else facts["ability"]
    return str(ability)


def _result(move: Move, facts: dict[str, Any]) -> bytes | None:
    data, usage, cost, degraded_by = move.result or (None, None, None, None)
    agent = None if facts["agent_id"] is None or degraded_by else _agent(facts)
    if facts["fallback"] and not degraded_by:
        degraded_by = {"kind": SUBSTITUTE, "ability": _serving(facts), "agentId": facts["agent_id"]}
    return documents.result_bytes(move.state, data, agent=agent, usage=usage, cost=cost, degraded_by=degraded_by)


def _agent(facts: dict[str, Any]) -> dict[str, Any]:
    agent = snapshot.current(facts["namespace"]).agents.get(facts["agent_id"])
    version = None
    if agent is not None:
        own = {one.instance_id: one.version for one in agent.instances}
        version = own.get(facts["instance_id"]) or agent.version
    return {"agentId": facts["agent_id"], "version": version, "instanceId": facts["instance_id"]}


def _callback(move: Move, facts: dict[str, Any], result: bytes | None) -> NewCallback | None:
    given = move.error
    error = (
        documents.error_object(given.code, clean(given.message) or "", given.retryable, given.details)
        if given
        else None
    )
    timings = {**msgspec.json.decode(facts["timings"]), **(move.timings or {})}
    return new_callback(facts, move.at, state=move.state, result=result, error=error, timings=timings)


def new_callback(
    facts: dict[str, Any],
    at: dt.datetime,
    *,
    state: str,
    result: bytes | None,
    error: dict[str, Any] | None,
    timings: dict[str, int],
    late: bool = False,
) -> NewCallback | None:
    """The callback of a final state, None when the request asked for none."""
    ask = callback_ask(bytes(facts["request"]))
    url = receiver(ask) if ask is not None else None
    if ask is None or not url or "final" not in ask.events:
        return None
    body = documents.callback_body(
        facts,
        state=state,
        result=result,
        error=error,
        timings=documents.timings_object(timings, facts["created_at"], at),
        metadata=facts["metadata"],
        late=late,
    )
    return NewCallback(
        id=sibling(facts["id"]),
        subject_id=facts["id"],
        namespace=facts["namespace"],
        client=facts["client"],
        url=url,
        auth_token=ask.auth_token.encode() if ask.auth_token else None,
        traceparent=facts["traceparent"],
        body=body,
        schedule=facts["schedule"] or "standard",
        created_at=at,
        follows=late,
    )


def _detail(move: Move) -> str | None:
    detail = dict(move.detail or {})
    if move.error:
        detail |= {"code": move.error.code, "message": clean(move.error.message)}
    return dumps(storable(detail)).decode() if detail else None


def clean(text: str | None) -> str | None:
    """Text as rows keep it."""
    return None if text is None else clean_text(text, MESSAGE_LIMIT)

"""What agents report about an attempt: received, progress, result. Each may come twice, late, or after the end.

| the attempt                                  | receipt, progress | result                                          |
|----------------------------------------------|-------------------|-------------------------------------------------|
| is the open one of an open task              | noted             | settles it                                      |
| was ended by an earlier result               | nothing, no error | nothing, no error                               |
| was ended otherwise (time, cancel, lost)     | StateConflict     | StateConflict; kept as the task's late result if |
|                                              |                   | the task has ended without success              |
"""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import transaction

from callbacks import services as callbacks
from common.clock import now as clock_now
from common.database import hot_cursor, robust
from common.encoding import clean_text, storable
from common.errors import NotFound, NotReady, StateConflict
from common.json import dumps, parse, raw_fields
from routing import endings
from routing.cost import charged
from routing.policy import decide
from routing.services import moves
from routing.services.facts import AttemptFacts, capability_of, price_of, route_facts, task_facts
from routing.services.fallback import Falling, instead
from routing.services.node import here
from routing.services.observe import Ended, observe
from routing.services.progress import note
from routing.services.receipt import Receipt, received
from routing.services.settle import move_of
from routing.states import FINAL, Certainty, TaskError, TaskState
from routing.trip import Await, Outcome, Settlement

_TRIES = 5
_TEXT_LIMIT = 2000

_LOOK = """
SELECT t.id, a.number, a.key, a.ended_at IS NULL, a.certainty, a.outcome, a.received_at, t.state, t.attempts,
  t.namespace, t.ability, a.agent_id, a.capability, t.max_attempts, t.created_at, t.deadline_at, t.expires_at,
  b.request, t.client, t.fallback, a.instance_id, a.sent_at
FROM routing_attempt a JOIN routing_task t ON t.id = a.task_id JOIN routing_taskbody b ON b.task_id = a.task_id
WHERE a.task_id = %(id)s AND a.key = %(key)s"""
_KEEP_LATE = """
WITH locked AS MATERIALIZED (
  SELECT t.id FROM routing_task t WHERE t.id = %(id)s AND t.outcome IN ('FAILED', 'TIMEOUT', 'CANCELLED') FOR UPDATE
), kept AS (
  UPDATE routing_taskbody b SET late = %(late)s FROM locked l
  WHERE b.task_id = %(id)s AND b.late IS NULL RETURNING b.task_id
), moved AS (
  UPDATE routing_task t SET seq = t.seq + 1 FROM kept k WHERE t.id = %(id)s AND k.task_id = t.id
  RETURNING t.id, t.seq, t.state, t.created_at
), event AS (
  INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, node, elapsed_ms)
  SELECT id, seq, %(now)s, 'LATE_RESULT', state, state, %(number)s, %(agent)s, %(node)s,
    least(extract(epoch FROM %(now)s - created_at) * 1000, 2147483647)
  FROM moved
)
SELECT t.id, t.namespace, t.client, t.correlation_id, t.trace_id, t.traceparent, t.state, t.created_at, t.timings,
  b.request, b.metadata, c.callback_schedule
FROM moved m JOIN routing_task t ON t.id = m.id JOIN routing_taskbody b ON b.task_id = m.id
LEFT JOIN registry_client c ON c.namespace = t.namespace AND c.name = t.client
WHERE t.id = %(id)s AND b.task_id = %(id)s"""
_LATE_FACTS = (
    "id", "namespace", "client", "correlation_id", "trace_id", "traceparent", "state", "created_at", "timings",
    "request", "metadata", "schedule",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Reported:
    """The attempt that a report names, and its task."""

    task_id: uuid.UUID
    number: int
    key: uuid.UUID
    is_open: bool
    answered: bool  # by an earlier result
    received_at: dt.datetime | None
    state: str
    facts: AttemptFacts
    instance_id: str
    sent_at: dt.datetime | None


def receipt(task_id: uuid.UUID, attempt_key: uuid.UUID, raw: bytes, now: dt.datetime) -> None:
    """The agent has it. Raises NotFound for an unknown attempt, StateConflict for one that ended without its answer."""
    one = _look(task_id, attempt_key)
    if not one.is_open:
        _refuse_unless_answered(one)
        return
    if not received([Receipt(task_id, one.number, now, attempt_key=attempt_key)]):
        _refuse_unless_answered(_look(task_id, attempt_key))


def progress(task_id: uuid.UUID, attempt_key: uuid.UUID, raw: bytes, now: dt.datetime) -> None:
    """How far it is; raises as `receipt`."""
    body = parse(raw)
    one = _look(task_id, attempt_key)
    shown = {"percent": body.get("percent"), "message": _text(body.get("message")), "at": now}
    if not (one.is_open and note(task_id, one.number, one.facts.request, shown, now)):
        _refuse_unless_answered(_look(task_id, attempt_key))
    endings.stepped([task_id])


def result(task_id: uuid.UUID, attempt_key: uuid.UUID, raw: bytes, now: dt.datetime) -> None:
    """The attempt's end by its agent; `raw` is the strict JSON body, whose data is kept byte for byte.

    Raises NotFound for an unknown attempt, StateConflict for one that had ended without an answer.
    """
    body = parse(raw)
    for _ in range(_TRIES):
        one = _look(task_id, attempt_key)
        if not one.is_open:
            if not one.answered and one.state in FINAL:
                _keep_late(one, body, raw, now)
            _refuse_unless_answered(one)
            return
        outcome = _outcome(one, body, raw, now)
        decision = decide(outcome, task_facts(one.facts), route_facts(one.facts), now)
        if isinstance(decision, Await):
            raise TypeError("a result is never an acceptance")
        facts = task_facts(one.facts)
        after = instead(decision, Falling.of(one.facts, one.number, side_effects=facts.side_effects), outcome, now)
        move = move_of(Settlement(task_id, one.number, after, outcome, now, attempt_key=attempt_key))
        if moves.apply([move])[0].applied:
            observe([Ended(one.facts, one.instance_id, outcome, one.sent_at)], now)
            return
    raise NotReady


@robust(patience=5.0)
def _look(task_id: uuid.UUID, attempt_key: uuid.UUID) -> _Reported:
    with hot_cursor() as cursor:
        row = cursor.execute(_LOOK, {"id": task_id, "key": attempt_key}, prepare=True).fetchone()
    if row is None:
        raise NotFound
    (
        id, number, key, is_open, certainty, outcome, received_at, state, attempts, namespace, ability, agent_id,
        capability, max_attempts, created_at, deadline_at, expires_at, request, client, fallback,
        instance_id, sent_at,
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
        id,
        msgspec.json.decode(fallback) if fallback else None,
    )
    answered = certainty == Certainty.RAN and outcome in ("SUCCEEDED", "FAILED")
    is_open = is_open and state in (TaskState.DISPATCHED, TaskState.RUNNING) and attempts == number
    return _Reported(id, number, key, is_open, answered, received_at, state, facts, instance_id or "", sent_at)


def _refuse_unless_answered(one: _Reported) -> None:
    if not one.answered:
        raise StateConflict("this attempt has ended; what came after its end does not count")


def _outcome(one: _Reported, body: dict[str, Any], raw: bytes, now: dt.datetime) -> Outcome:
    """The report as a channel would tell it."""
    received_at = one.received_at or now
    if body["status"] == "SUCCEEDED":
        data = raw_fields(raw, ("data",)).get("data", b"null")
        if problem := _misfit(one, body.get("data")):
            message = f"The result does not fit the output schema: {problem}"
            return Outcome("FAILED", Certainty.RAN, now, received_at, code=TaskError.BAD_RESPONSE, message=message)
        usage, cost = body.get("usage") or None, body.get("cost") or None
        outcome = Outcome("SUCCEEDED", Certainty.RAN, now, received_at, data=data, usage=usage, cost=cost)
        return charged(outcome, price_of(one.facts, one.instance_id), now - (one.sent_at or received_at))
    return _failure(body.get("error") or {}, now, received_at)


def _misfit(one: _Reported, data: Any) -> str | None:
    capability = capability_of(one.facts)
    if capability is None or capability.output is None:
        return None
    first = next(iter(capability.output.errors(data, limit=1)), None)
    return f"{first['pointer'] or 'it'} {first['message']}" if first else None


def _failure(error: dict[str, Any], now: dt.datetime, received_at: dt.datetime) -> Outcome:
    """A code of the contract's list is taken over; any other is the agent's own."""
    given = error.get("code")
    code = TaskError(given) if given in _FROM_AGENTS else TaskError.AGENT_FAILED
    details = dict(error["details"]) if isinstance(error.get("details"), dict) else {}
    if given and code == TaskError.AGENT_FAILED and given != code:
        details["agentCode"] = _text(given)
    return Outcome(
        "FAILED",
        Certainty.RAN,
        now,
        received_at,
        code=code,
        message=_text(error.get("message")) or "The agent reported a failure.",
        retryable=error.get("retryable"),
        details=storable(details) or None,
    )


_FROM_AGENTS = frozenset(
    {"TIMEOUT", "SERVICE_UNAVAILABLE", "INTERNAL_ERROR", "REJECTED", "BAD_RESPONSE", "AGENT_FAILED"}
)


def _text(given: Any) -> str | None:
    return None if given is None else clean_text(str(given), _TEXT_LIMIT)


@robust(patience=5.0)
def _keep_late(one: _Reported, body: dict[str, Any], raw: bytes, now: dt.datetime) -> None:
    """Keep the first late result of an ended task; the caller of a timed-out one is told of it."""
    late = _late_document(one, body, raw, now)
    values = {
        "id": one.task_id, "late": late, "now": now, "number": one.number, "agent": one.facts.agent_id, "node": here(),
    }  # fmt: skip
    with transaction.atomic(), hot_cursor() as cursor:
        row = cursor.execute(_KEEP_LATE, values).fetchone()
        if row is None:
            return
        facts = dict(zip(_LATE_FACTS, row, strict=True))
        if facts["state"] == TaskState.TIMEOUT:
            told = moves.new_callback(facts, now, state=facts["state"], result=late, error=None, timings={}, late=True)
            if told:
                callbacks.create(cursor, [told], leased=False, now=clock_now())
                cursor.execute("UPDATE routing_task SET callback_id = %s WHERE id = %s", [told.id, one.task_id])
    endings.publish([one.task_id])


def _late_document(one: _Reported, body: dict[str, Any], raw: bytes, now: dt.datetime) -> bytes:
    error = body.get("error")
    return dumps(
        {
            "status": body["status"],
            "data": moves.documents.raw(raw_fields(raw, ("data",)).get("data")),
            "error": error if isinstance(error, dict) else None,
            "usage": body.get("usage") or {},
            "agent": {"agentId": one.facts.agent_id},
            "attempt": one.number,
            "at": now,
        }
    )

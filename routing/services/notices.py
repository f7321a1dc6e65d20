"""Telling an agent that the attempt it works on was cancelled: who is to be told, and what became of it.

A notice is a mark in the attempt's row, made together with the cancel: {"cancel": {"dueMs", "tries"}}. A message on
Redis hurries the workers; `lost` finds what no message told of. Whoever takes a notice has it for `LEASE`.
"""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common import broadcast
from common.clock import millis
from common.database import hot_cursor, robust
from common.ids import floor_id
from common.json import dumps
from routing import endings, snapshot
from routing.services.node import here

CHANNEL = "cancelled"
LEASE = dt.timedelta(seconds=60)  # beyond what all tries of one worker take
LOOK_BACK = dt.timedelta(days=1)  # how old a task may be whose notice is found without a message
MOST_TAKEN = 3  # a notice whose workers all died is given up
TOLD, NOT_TOLD = "CANCEL_TOLD", "CANCEL_NOT_TOLD"

_MARK = """
UPDATE routing_attempt SET decision = coalesce(decision, '{}') || jsonb_build_object('cancel',
  jsonb_build_object('dueMs', %(due)s::bigint, 'tries', 0))
WHERE task_id = %(id)s AND number = %(number)s AND outcome = 'CANCELLED'"""
_TAKE = """
WITH due AS MATERIALIZED (
  SELECT a.task_id, a.number FROM routing_attempt a
  WHERE a.task_id = ANY(%(ids)s::uuid[]) AND (a.decision -> 'cancel' ->> 'dueMs')::bigint <= %(due)s
    AND (a.decision -> 'cancel' ->> 'tries')::int < %(most)s
  ORDER BY a.task_id, a.number FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE routing_attempt a SET decision = a.decision || jsonb_build_object('cancel', jsonb_build_object(
    'dueMs', %(until)s::bigint, 'tries', (a.decision -> 'cancel' ->> 'tries')::int + 1))
  FROM due WHERE a.task_id = due.task_id AND a.number = due.number AND a.task_id = ANY(%(ids)s::uuid[])
  RETURNING a.task_id, a.number, a.key, a.namespace, a.agent_id, a.instance_id, a.capability
)
SELECT x.*, t.trace_id, t.correlation_id, t.idempotency_key FROM taken x JOIN routing_task t ON t.id = x.task_id
WHERE t.id = ANY(%(ids)s::uuid[])"""
_LOST = """
SELECT a.task_id FROM registry_namespace n CROSS JOIN LATERAL (
  SELECT t.id FROM routing_task t WHERE t.namespace = n.name AND t.outcome = 'CANCELLED' AND t.id >= %(since)s
  ORDER BY t.id DESC LIMIT 500) t
JOIN routing_attempt a ON a.task_id = t.id
WHERE a.task_id >= %(since)s AND a.outcome = 'CANCELLED' AND (a.decision -> 'cancel' ->> 'dueMs')::bigint <= %(due)s
  AND (a.decision -> 'cancel' ->> 'tries')::int < %(most)s
LIMIT 500"""
_CANCELLED = """
SELECT key FROM routing_attempt
WHERE task_id = ANY(%(ids)s::uuid[]) AND key = ANY(%(keys)s::uuid[]) AND outcome = 'CANCELLED'"""
_NOTE = """
WITH done AS (
  UPDATE routing_attempt SET decision = CASE WHEN %(by_notice)s THEN decision - 'cancel' ELSE decision END
  WHERE task_id = %(id)s AND number = %(number)s AND (NOT %(by_notice)s OR jsonb_exists(decision, 'cancel'))
  RETURNING task_id, agent_id, instance_id
), moved AS (
  UPDATE routing_task t SET seq = t.seq + 1 FROM done WHERE t.id = done.task_id AND t.id = %(id)s
  RETURNING t.id, t.seq, t.state, t.created_at, done.agent_id, done.instance_id
)
INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
  elapsed_ms, detail)
SELECT id, seq, %(now)s, %(event)s, state, state, %(number)s, agent_id, instance_id, %(node)s,
  least(extract(epoch FROM %(now)s - created_at) * 1000, 2147483647), %(detail)s::jsonb
FROM moved RETURNING seq"""


@dataclass(frozen=True, slots=True)
class Notice:
    """One agent that is to be told; `url` is empty where it has no address for that any more."""

    task_id: uuid.UUID
    number: int
    body: bytes
    url: str
    signing: tuple[str, str] | None


def how(namespace: str, agent_id: str, *, is_held: bool) -> str:
    """How the agent of an open attempt hears of a cancel: by its ADDRESS, by its CONNECTION, else at its next REPORT,
    which is refused."""
    if address_of(namespace, agent_id)[0]:
        return "ADDRESS"
    return "CONNECTION" if is_held else "REPORT"


def mark(cursor: Any, task_id: uuid.UUID, number: int, now: dt.datetime) -> None:
    """Put it down, within the caller's transaction, that the agent of the attempt that was cancelled is to be told."""
    cursor.execute(_MARK, {"id": task_id, "number": number, "due": millis(now)})


def hurry(task_ids: Sequence[uuid.UUID]) -> None:
    """Tell the workers of it, after the commit; never blocks, never raises."""
    broadcast.publish(CHANNEL, [str(one) for one in task_ids])


@robust(patience=2.0)
def take(task_ids: Sequence[uuid.UUID], now: dt.datetime) -> list[Notice]:
    """The notices of these tasks that nobody else has; each is due again after `LEASE`."""
    values = {"ids": list(task_ids), "due": millis(now), "until": millis(now + LEASE), "most": MOST_TAKEN}
    with hot_cursor() as cursor:
        return [_notice(row) for row in cursor.execute(_TAKE, values, prepare=True).fetchall()]


@robust(patience=2.0)
def lost(now: dt.datetime) -> list[uuid.UUID]:
    """Tasks whose notices nobody took: of each namespace's newest cancelled ones, a day back."""
    values = {"since": floor_id(now - LOOK_BACK), "due": millis(now), "most": MOST_TAKEN}
    with hot_cursor() as cursor:
        return [row[0] for row in cursor.execute(_LOST, values, prepare=True).fetchall()]


@robust(patience=2.0)
def cancelled(attempts: Sequence[tuple[uuid.UUID, uuid.UUID]]) -> set[uuid.UUID]:
    """The keys of those attempts, (task, key), that were cancelled."""
    values = {"ids": [one for one, _ in attempts], "keys": [key for _, key in attempts]}
    with hot_cursor() as cursor:
        return {row[0] for row in cursor.execute(_CANCELLED, values, prepare=True).fetchall()}


@robust(patience=5.0)
def note(
    task_id: uuid.UUID, number: int, event: str, detail: dict[str, Any], now: dt.datetime, *, by_notice: bool
) -> None:
    """Write into the journey that the agent was told, or could not be. `by_notice` counts once for each notice."""
    values = {
        "id": task_id, "number": number, "event": event, "detail": dumps(detail).decode(), "now": now, "node": here(),
        "by_notice": by_notice,
    }  # fmt: skip
    with hot_cursor() as cursor:
        found = cursor.execute(_NOTE, values, prepare=True).fetchone()
    if found:
        endings.stepped([task_id])


def address_of(namespace: str, agent_id: str) -> tuple[str, tuple[str, str] | None]:
    """The address by which the agent wants to be told, and the key to sign with."""
    agent = snapshot.current(namespace).agents.get(agent_id)
    return (agent.cancel_url, agent.signing) if agent else ("", None)


def _notice(row: tuple[Any, ...]) -> Notice:
    task_id, number, key, namespace, agent_id, instance_id, capability, trace_id, correlation_id, idempotency_key = row
    body = {
        "schemaVersion": "1.0",
        "messageType": "task.cancel",
        "taskId": task_id,
        "traceId": trace_id,
        "correlationId": correlation_id,
        "target": {"agentId": agent_id, "instanceId": instance_id, "capability": capability},
        "attempt": number,
        "idempotencyKey": idempotency_key,
        "attemptKey": key,
    }
    url, signing = address_of(namespace, agent_id)
    return Notice(task_id, number, dumps(body), url, signing)

"""Attempts that wait in a Redis stream for their agent: what Redis lost is added again, what has ended is taken out."""

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from common.database import hot_cursor, robust
from common.redis import RedisAway
from routing import snapshot
from routing.channel_choice import STREAM
from routing.channels import entries
from routing.channels.base import Sending
from routing.channels.entries import Stream
from routing.channels.envelope import request_body
from routing.engine.request import read
from routing.engine.sendings import reporting
from routing.snapshot import AgentView, CapabilityView, InstanceView
from routing.trip import Claimed, Dispatch

SETTLED_IN = dt.timedelta(seconds=2)  # a worker has so long to add what it has put on record
LIMIT = 500

_WAITING = """
SELECT a.key, a.task_id, a.sent_at FROM routing_attempt a
WHERE a.ended_at IS NULL AND a.channel = 'stream' AND a.received_at IS NULL AND a.deadline_at > %(now)s"""
_WHOLE = """
SELECT t.id, t.namespace, t.client, t.ability, t.correlation_id, t.trace_id, t.session_id, t.idempotency_key,
  t.deadline_at, t.fallback, b.request, a.number, a.key, a.agent_id, a.instance_id, a.capability,
  a.deadline_at, a.sent_at
FROM routing_attempt a JOIN routing_task t ON t.id = a.task_id JOIN routing_taskbody b ON b.task_id = a.task_id
WHERE a.task_id = ANY(%(ids)s::uuid[]) AND a.key = ANY(%(keys)s::uuid[]) AND a.ended_at IS NULL
  AND a.received_at IS NULL AND t.outcome IS NULL"""


def mend(now: dt.datetime) -> int:
    """Make the streams hold the entries of open attempts that nobody received, and no others; how many were added.

    Not added again is what may have been read before it was lost and must not run twice. Does nothing without Redis.
    """
    try:
        kept = entries.kept()  # before the rows: what has an entry by then had its row before
        waiting = _waiting(now)
        if not kept and not waiting:
            return 0
        _take_out(kept, {key.hex for key in waiting})
        present = {name for names in kept.values() for name in names}
        old = now - SETTLED_IN
        missing = [(task, key) for key, (task, sent_at) in waiting.items() if key.hex not in present and sent_at < old]
        return _add_again(missing[:LIMIT])
    except RedisAway:
        return 0


def withdrawn(stream: Stream, key: uuid.UUID) -> str | None:
    """What became of an attempt's entry, which nobody can read any more: as `entries.withdraw`; None without Redis."""
    try:
        return entries.withdraw(stream, key.hex)
    except RedisAway:
        return None


@robust(patience=2.0)
def _waiting(now: dt.datetime) -> dict[uuid.UUID, tuple[uuid.UUID, dt.datetime]]:
    with hot_cursor() as cursor:
        rows = cursor.execute(_WAITING, {"now": now}, prepare=True).fetchall()
    return {key: (task_id, sent_at) for key, task_id, sent_at in rows}


def _take_out(kept: dict[Stream, set[str]], waiting: set[str]) -> None:
    for stream, names in kept.items():
        for name in names - waiting:
            entries.withdraw(stream, name)


def _add_again(missing: Sequence[tuple[uuid.UUID, uuid.UUID]]) -> int:
    if not missing:
        return 0
    added = 0
    for row in _whole(missing):
        sending = _sending(row)
        if sending is not None:
            one = sending.dispatch
            stream = (one.task.namespace, one.agent_id, one.instance_id)
            added += entries.add(stream, one.attempt_key.hex, request_body(sending, one.sent_at))
    return added


@robust(patience=2.0)
def _whole(attempts: Sequence[tuple[uuid.UUID, uuid.UUID]]) -> list[tuple[Any, ...]]:
    values = {"ids": [task_id for task_id, _ in attempts], "keys": [key for _, key in attempts]}
    with hot_cursor() as cursor:
        return cursor.execute(_WHOLE, values).fetchall()


def _sending(row: tuple[Any, ...]) -> Sending | None:
    """The attempt as it was sent; None where it must not be sent again, or its agent is gone."""
    (
        task_id, namespace, client, ability, correlation_id, trace_id, session_id, idempotency_key,
        task_deadline, fallback, request, number, key, agent_id, instance_id, capability, deadline_at, sent_at,
    ) = row  # fmt: skip
    given = read(bytes(request))
    task = Claimed(
        task_id=task_id, namespace=namespace, namespace_version=0, client=client, ability=ability,
        correlation_id=correlation_id, trace_id=trace_id, traceparent="", session_id=session_id, call_path=[],
        priority=0, state="", seq=0, attempts=number - 1, max_attempts=0, strikes=0, round=0,
        idempotency_key=idempotency_key, created_at=sent_at, due_at=sent_at, expires_at=task_deadline,
        deadline_at=task_deadline, timings={}, waited_for=None, request=bytes(request),
        fallback=msgspec.json.decode(fallback) if fallback else None,
    )  # fmt: skip
    found = _view(task, agent_id, instance_id, capability)
    if found is None or (found[1].side_effects and not found[1].idempotent):
        return None
    dispatch = Dispatch(
        task=task, attempt_key=key, agent_id=agent_id, instance_id=instance_id, capability=capability,
        channel=STREAM, decision={}, deadline_at=deadline_at, routed_at=sent_at, sent_at=sent_at,
    )  # fmt: skip
    return Sending(dispatch, *found, bytes(given.payload), bytes(given.metadata) or None, *reporting(task_id, key))


def _view(
    task: Claimed, agent_id: str, instance_id: str, capability: str
) -> tuple[AgentView, CapabilityView, InstanceView] | None:
    ability = snapshot.current(task.namespace).abilities.get(task.serving)
    for one in ability.candidates if ability else ():
        if (one.agent.agent_id, one.capability.name) == (agent_id, capability):
            instance = next((i for i in one.agent.instances if i.instance_id == instance_id), None)
            return (one.agent, one.capability, instance) if instance else None
    return None

"""Attempts whose result must be asked for: who is due, and what follows. Between two questions nothing is held."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from routing.policy import decide
from routing.services.facts import AttemptFacts, adapter_of, capability_of, route_facts, signing_of, task_facts
from routing.services.fallback import Falling, instead
from routing.services.observe import Ended, observe
from routing.services.receipt import POLLED
from routing.services.settle import settle
from routing.snapshot import CapabilityView
from routing.snapshot.model import AdapterView
from routing.trip import Await, Outcome, Settled, Settlement

LEASE = dt.timedelta(seconds=30)  # beyond the 10 s that a question may take

_CLAIM = """
WITH due AS MATERIALIZED (
  SELECT id FROM routing_task WHERE worker = %(polled)s AND outcome IS NULL AND NOT waiting AND state = 'RUNNING'
    AND due_at <= %(now)s ORDER BY due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE routing_task t SET due_at = %(until)s FROM due WHERE t.id = due.id AND t.id = ANY (ARRAY(SELECT id FROM due))
  RETURNING t.*
)
SELECT t.id, a.number, a.key, a.decision ->> 'statusUrl', t.received_at, t.namespace, t.ability, a.agent_id,
  a.capability, t.attempts, t.max_attempts, t.created_at, t.deadline_at, t.expires_at, b.request, a.instance_id,
  a.sent_at, t.client, t.fallback
FROM taken t JOIN routing_attempt a ON a.task_id = t.id AND a.number = t.attempts
JOIN routing_taskbody b ON b.task_id = t.id
WHERE a.ended_at IS NULL AND a.decision ->> 'statusUrl' IS NOT NULL"""
_COLUMNS = {"id": "uuid", "number": "int", "due_at": "timestamptz"}
_LATER = f"""
WITH given AS (SELECT * FROM {unnest(_COLUMNS)}), locked AS MATERIALIZED (
  SELECT t.id FROM routing_task t WHERE t.id = ANY(%(id)s::uuid[]) AND t.outcome IS NULL AND t.worker = %(polled)s
    AND NOT t.waiting ORDER BY t.id FOR UPDATE
)
UPDATE routing_task t SET due_at = g.due_at FROM given g JOIN locked l ON l.id = g.id
WHERE t.id = g.id AND t.id = ANY(%(id)s::uuid[]) AND t.attempts = g.number"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class Poll:
    """One question to ask now."""

    task_id: uuid.UUID
    number: int
    key: uuid.UUID
    url: str
    received_at: dt.datetime
    facts: AttemptFacts
    instance_id: str
    sent_at: dt.datetime

    @property
    def capability(self) -> CapabilityView:
        return capability_of(self.facts) or CapabilityView(self.facts.capability)

    @property
    def adapter(self) -> AdapterView | None:
        return adapter_of(self.facts)

    @property
    def signing(self) -> tuple[str, str] | None:
        return signing_of(self.facts)


@robust
def claim(now: dt.datetime, limit: int) -> list[Poll]:
    """At most `limit` that are due; nobody else asks them for `LEASE`."""
    values = {"polled": POLLED, "now": now, "until": now + LEASE, "limit": limit}
    with hot_cursor() as cursor:
        return [_poll(row) for row in cursor.execute(_CLAIM, values, prepare=True).fetchall()]


def _poll(row: tuple[Any, ...]) -> Poll:
    id, number, key, url, received_at, *known, request, instance_id, sent_at, client, fallback = row
    substituted = msgspec.json.decode(fallback) if fallback else None
    facts = AttemptFacts(*[*known, bytes(request), client, id, substituted])
    return Poll(id, number, key, url, received_at, facts, instance_id or "", sent_at)


@robust
def later(polls: Sequence[tuple[Poll, dt.datetime]]) -> None:
    """Ask them again at these times."""
    rows = [(poll.task_id, poll.number, due_at) for poll, due_at in polls]
    with hot_cursor() as cursor:
        cursor.execute(_LATER, {**arrays(_COLUMNS, rows), "polled": POLLED}, prepare=True)


def ended(poll: Poll, outcome: Outcome, now: dt.datetime) -> Settled:
    """What the agent said ends the attempt; the callback's first delivery is the caller's (`Settled.callbacks`)."""
    facts = task_facts(poll.facts)
    decision = decide(outcome, facts, route_facts(poll.facts), now)
    if isinstance(decision, Await):
        raise TypeError("an answer of the status address is never an acceptance")
    after = instead(decision, Falling.of(poll.facts, poll.number, side_effects=facts.side_effects), outcome, now)
    settlement = Settlement(poll.task_id, poll.number, after, outcome, now, attempt_key=poll.key)
    [settled] = settle([settlement], lease_callbacks=True)
    if settled.applied:
        observe([Ended(poll.facts, poll.instance_id, outcome, poll.sent_at)], now)
    return settled

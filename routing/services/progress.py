"""How far an attempt is: an event of the journey, and a callback where the request asks to be told."""

import datetime as dt
import uuid
from typing import Any

from django.db import transaction

from callbacks import services as callbacks
from callbacks.messages import NewCallback
from callbacks.policy import PROGRESS
from common.database import hot_cursor, robust
from common.ids import sibling
from common.json import dumps
from routing import documents
from routing.services.asked import callback_ask, receiver
from routing.services.node import here

_NOTE = """
WITH locked AS MATERIALIZED (
  SELECT id, state FROM routing_task WHERE id = %(id)s AND attempts = %(number)s AND outcome IS NULL
    AND state IN ('DISPATCHED', 'RUNNING') FOR UPDATE
), moved AS (
  UPDATE routing_task t SET state = 'RUNNING', seq = t.seq + 1,
    state_since = CASE WHEN l.state = 'RUNNING' THEN t.state_since ELSE %(now)s END,
    received_at = coalesce(t.received_at, %(now)s), progress = %(progress)s::jsonb
  FROM locked l WHERE t.id = %(id)s AND t.id = l.id
  RETURNING t.id, t.seq, l.state, t.agent_id, t.instance_id, t.created_at
), noted AS (
  UPDATE routing_attempt SET received_at = coalesce(received_at, %(now)s)
  WHERE task_id = %(id)s AND number = %(number)s AND EXISTS (SELECT FROM moved)
)
INSERT INTO routing_event (task_id, seq, at, event, from_state, to_state, attempt, agent_id, instance_id, node,
  elapsed_ms, detail)
SELECT id, seq, %(now)s, 'PROGRESS', state, 'RUNNING', %(number)s, agent_id, instance_id, %(node)s,
  least(extract(epoch FROM %(now)s - created_at) * 1000, 2147483647), %(progress)s::jsonb
FROM moved RETURNING seq"""
_FACTS = ("id", "namespace", "client", "correlation_id", "trace_id", "traceparent", "sent_at", "metadata")
_READ = """
SELECT t.id, t.namespace, t.client, t.correlation_id, t.trace_id, t.traceparent, t.sent_at, b.metadata
FROM routing_task t JOIN routing_taskbody b ON b.task_id = t.id WHERE t.id = %(id)s AND b.task_id = %(id)s"""


@robust(patience=5.0)
def note(task_id: uuid.UUID, number: int, request: bytes, shown: dict[str, Any], now: dt.datetime) -> bool:
    """Put `shown` (percent, message, at) on record for the open attempt of this number; False when it is not open."""
    values = {"id": task_id, "number": number, "now": now, "progress": dumps(shown).decode(), "node": here()}
    ask = callback_ask(request)
    with transaction.atomic(), hot_cursor() as cursor:
        row = cursor.execute(_NOTE, values, prepare=True).fetchone()
        if row is None:
            return False
        if ask is not None and "progress" in ask.events and (url := receiver(ask)):
            facts = dict(zip(_FACTS, cursor.execute(_READ, values, prepare=True).fetchone() or (), strict=True))
            told = _callback(facts, row[0], shown, url, ask.auth_token, now)
            callbacks.create(cursor, [told], leased=False, now=now)
        return True


def _callback(
    facts: dict[str, Any], sequence: int, shown: dict[str, Any], url: str, token: str | None, now: dt.datetime
) -> NewCallback:
    # Which of two messages is newer must not hang on two machines' clocks: the attempt's beginning lies well before any
    # end of it, and the sequence after that.
    order = facts["sent_at"] + dt.timedelta(microseconds=sequence)
    return NewCallback(
        id=sibling(facts["id"]),
        subject_id=facts["id"],
        namespace=facts["namespace"],
        client=facts["client"],
        url=url,
        auth_token=token.encode() if token else None,
        traceparent=facts["traceparent"],
        body=documents.progress_body(facts, shown, sequence, now),
        schedule=PROGRESS,
        created_at=order,
    )

"""From a checked request to a durable task: one statement, and exactly one task however many ask at once."""

import datetime as dt
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common import ids
from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from common.errors import AbilityNotRegistered, Invalid, NotFound, NotReady, ReachError
from common.json import dumps, parse
from registry.principal import Principal
from registry.selectors import namespace_version
from routing import queue, snapshot
from routing.documents import PRIORITIES
from routing.requests import ReachRequest
from routing.services import earlier, quotas
from routing.services.admission import Admitted, Parent, admit, caller_of
from routing.services.asked import sealed
from routing.services.batches import in_halves
from routing.services.gathered import Gathered
from routing.services.node import here
from routing.snapshot import Snapshot
from routing.states import TaskState
from routing.trip import Accepted

_PATIENCE_S = 2.0

_COLUMNS = {
    "namespace": "text", "client": "text", "version": "bigint", "now": "timestamptz",
    "id": "uuid", "correlation_id": "text", "digest": "bytea", "ability": "text", "trace_id": "text",
    "traceparent": "text", "session_id": "text", "parent_id": "uuid", "call_path": "text", "priority": "int",
    "due_at": "timestamptz", "max_attempts": "int", "idempotency_key": "text", "not_before": "timestamptz",
    "budget_at": "timestamptz", "expires_at": "timestamptz", "deadline_at": "timestamptz", "request": "bytea",
    "metadata": "bytea",
}  # fmt: skip
_ID = list(_COLUMNS).index("id")
_ACCEPT = f"""
WITH given AS MATERIALIZED (
  SELECT g.* FROM {unnest(_COLUMNS)} JOIN registry_namespace n
    ON n.name = g.namespace AND (g.version IS NULL OR n.version = g.version)
), mine AS (
  INSERT INTO routing_idempotency (namespace, client, correlation_id, task_id, digest)
  SELECT namespace, client, correlation_id, id, digest FROM given
  WHERE correlation_id IS NOT NULL ORDER BY namespace, client, correlation_id, id
  ON CONFLICT DO NOTHING RETURNING task_id
), fresh AS MATERIALIZED (
  SELECT * FROM given WHERE correlation_id IS NULL OR id IN (SELECT task_id FROM mine)
), task AS (
  INSERT INTO routing_task (id, namespace, client, ability, correlation_id, trace_id, traceparent, session_id,
    parent_id, call_path, priority, state, state_since, seq, waiting, due_at, attempts, max_attempts, round,
    idempotency_key, created_at, not_before, budget_at, expires_at, deadline_at, timings)
  SELECT id, namespace, client, ability, correlation_id, trace_id, traceparent, session_id, parent_id,
    call_path::jsonb, priority, 'RECEIVED', now, 1, true, due_at, 0, max_attempts, 1, idempotency_key,
    now, not_before, budget_at, expires_at, deadline_at, '{{}}'
  FROM fresh ON CONFLICT DO NOTHING RETURNING id
), body AS (
  INSERT INTO routing_taskbody (task_id, request, metadata)
  SELECT id, request, metadata FROM fresh ON CONFLICT DO NOTHING
), event AS (
  INSERT INTO routing_event (task_id, seq, at, event, to_state, node, elapsed_ms)
  SELECT id, 1, now, 'RECEIVED', 'RECEIVED', %(node)s, 0 FROM fresh ON CONFLICT DO NOTHING
)
SELECT id FROM task"""  # noqa: S608 - made of constants
_OWN = "SELECT id FROM routing_task WHERE id = ANY(%(ids)s::uuid[])"
_PARENTS = """
SELECT id, namespace, client, agent_id, state, outcome IS NULL, trace_id, call_path, deadline_at
FROM routing_task WHERE id = ANY(%(ids)s::uuid[]) AND namespace = %(namespace)s"""


@dataclass(slots=True)
class _Entry:
    """One request on its way; its id and digest are made once, so that every repeat is the same insert."""

    request: ReachRequest
    task_id: uuid.UUID
    digest: bytes
    trace_id: str
    traceparent: str
    parent: Parent | None
    answer: Accepted | ReachError | None = None
    row: tuple[Any, ...] = ()
    due_at: dt.datetime | None = None
    ask: quotas.Ask | None = None
    paid: bool = False

    @property
    def is_new_task(self) -> bool:
        return isinstance(self.answer, Accepted) and not self.answer.replayed


def accept(
    principal: Principal, namespace: str, request: ReachRequest, *, traceparent: str | None, now: dt.datetime
) -> Accepted:
    """Make the request a task, or find the one that it is a repetition of; durable when this returns.

    Raises what `admission.admit` raises, what `quotas.admit` gives, and IdempotencyMismatch when the correlationId was
    used for something else.
    """
    [answer] = accept_many(principal, namespace, [request], traceparent=traceparent, now=now)
    if isinstance(answer, ReachError):
        raise answer
    return answer


def accept_many(
    principal: Principal,
    namespace: str,
    items: Sequence[ReachRequest | ReachError],
    *,
    traceparent: str | None,
    now: dt.datetime,
) -> list[Accepted | ReachError]:
    """`accept` for up to 500 requests in one statement; each gets its own answer, given errors are kept."""
    client = caller_of(principal)
    parents = _parents(principal, namespace, [one for one in items if isinstance(one, ReachRequest)])
    entries = {
        index: _entry(item, parents.get(item.parent_id) if item.parent_id else None, traceparent, now)
        for index, item in enumerate(items)
        if isinstance(item, ReachRequest)
    }
    todo, known = list(entries.values()), snapshot.current(namespace)
    todo = _try(principal, known, client, todo, now, unchanged=True)
    newest = namespace_version(namespace) if todo else known.version
    if newest == 0:
        raise NotFound("there is no such namespace")
    if newest != known.version:
        # As new as the registry was after this request came in; what changes from now on need not count for it.
        _try(principal, snapshot.at_least(namespace, newest), client, todo, now, unchanged=False)
    _prefer_repeats(namespace, client, list(entries.values()))
    for new in (True, False):
        asks = [one.ask for one in entries.values() if one.ask and one.paid and one.is_new_task == new]
        quotas.settle(asks, became_tasks=new)
    queue.nudge(
        entry.task_id for entry in entries.values() if entry.is_new_task and entry.due_at and entry.due_at <= now
    )
    return [
        entries[index].answer or NotReady() if index in entries else _given(item) for index, item in enumerate(items)
    ]


def _try(
    principal: Principal, known: Snapshot, client: str, todo: list[_Entry], now: dt.datetime, *, unchanged: bool
) -> list[_Entry]:
    """Answer by this snapshot; returns those that a newer one may answer otherwise.

    With `unchanged` nothing is inserted unless the namespace is still as the snapshot shows it.
    """
    version = known.version if unchanged else None
    for entry in todo:
        entry.answer = None
    ready = [entry for entry in todo if _prepare(principal, known, version, entry, now)]
    _pay(known.namespace, client, [entry for entry in ready if entry.ask and not entry.paid])
    _write(known.namespace, client, [entry for entry in ready if entry.answer is None])
    return [entry for entry in todo if entry.answer is None or _may_be_new(entry.answer)]


def _given(item: ReachRequest | ReachError) -> ReachError:
    if isinstance(item, ReachError):
        return item
    raise TypeError("a request without an entry")


def _may_be_new(answer: Accepted | ReachError) -> bool:
    """Whether a newer snapshot may know what this one did not."""
    return isinstance(answer, AbilityNotRegistered)


def _entry(request: ReachRequest, parent: Parent | None, traceparent: str | None, now: dt.datetime) -> _Entry:
    given = ids.parse_traceparent(traceparent)
    trace_id = request.trace_id or (parent and parent.trace_id) or (given and given[0]) or ids.new_trace_id()
    w3c = ids.trace_id_of(trace_id)
    span = traceparent if given and given[0] == w3c and traceparent and len(traceparent) <= 55 else ids.traceparent(w3c)
    return _Entry(request, ids.uuid7(now), hashlib.sha256(request.raw).digest(), trace_id, span, parent)


def _prepare(principal: Principal, known: Snapshot, version: int | None, entry: _Entry, now: dt.datetime) -> bool:
    """Check the request and make its row; what is wrong with it becomes its answer."""
    try:
        admitted = admit(principal, known, entry.request, entry.parent, now)
    except ReachError as error:
        entry.answer = error
        return False
    whose = (known.namespace, caller_of(principal), version, now)
    entry.row, entry.due_at = whose + _row(entry, admitted), admitted.times.due_at
    ability = known.abilities[admitted.ability]
    priority = PRIORITIES.index(entry.request.priority)
    entry.ask = entry.ask or quotas.ask(
        principal, known.namespace, whose[1], ability, entry.task_id, priority, admitted.times
    )
    return True


def _pay(namespace: str, client: str, entries: list[_Entry]) -> None:
    """Have those that are limited admitted; repetitions are answered first where each place counts."""
    if any(entry.ask and entry.ask.is_narrow for entry in entries) or len(entries) > 1:
        _answer_earlier(namespace, client, entries)
    asking = [(entry, entry.ask) for entry in entries if entry.ask and entry.answer is None]
    if not asking:
        return
    for (entry, _), refusal in zip(asking, quotas.admit([ask for _, ask in asking]), strict=True):
        entry.answer, entry.paid = refusal, refusal is None


def _row(entry: _Entry, admitted: Admitted) -> tuple[Any, ...]:
    request, times = entry.request, admitted.times
    return (
        entry.task_id, request.correlation_id, entry.digest, admitted.ability, entry.trace_id, entry.traceparent,
        request.session_id, request.parent_id, dumps(admitted.call_path).decode(), PRIORITIES.index(request.priority),
        times.due_at, admitted.max_attempts, admitted.idempotency_key or request.correlation_id or str(entry.task_id),
        times.not_before, times.budget_at, times.expires_at, times.deadline_at, sealed(request.raw),
        request.metadata_raw,
    )  # fmt: skip


def _write(namespace: str, client: str, entries: list[_Entry]) -> None:
    """Insert what is new; answer for it and for what was there before. Without an answer: the registry is newer."""
    rows = [entry.row for entry in entries]
    made = [_gathered.do(rows[0])] if len(rows) == 1 else _insert_all(rows)
    for entry, its in zip(entries, made, strict=True):
        if its is None:
            entry.answer = Invalid(detail="it holds characters that cannot be stored")
        elif its:
            entry.answer = _accepted(entry)
    _answer_repeats(namespace, client, [entry for entry in entries if entry.answer is None])


def _insert_all(rows: list[tuple[Any, ...]]) -> list[bool | None]:
    """For each row whether it was inserted; None where it holds what the database cannot store."""
    refused: set[uuid.UUID] = set()

    def spoiled(row: tuple[Any, ...], error: Exception) -> list[uuid.UUID]:
        refused.add(row[_ID])
        return []

    made = set(in_halves(_insert, rows, spoiled))
    return [None if row[_ID] in refused else row[_ID] in made for row in rows]


@robust(patience=_PATIENCE_S)
def _insert(rows: list[tuple[Any, ...]]) -> list[uuid.UUID]:
    with hot_cursor() as cursor:
        cursor.execute(_ACCEPT, {**arrays(_COLUMNS, rows), "node": here()}, prepare=True)
        return [row[0] for row in cursor.fetchall()]


# Single requests of all threads share a statement and a commit: a fifth of the database's work for each.
_gathered: Gathered[tuple[Any, ...], bool | None] = Gathered(_insert_all)


def _answer_repeats(namespace: str, client: str, entries: list[_Entry]) -> None:
    if not entries:
        return
    own = _ids_there([entry.task_id for entry in entries])  # committed before, but the answer was lost
    for entry in entries:
        if entry.task_id in own:
            entry.answer = _accepted(entry)
    _answer_earlier(namespace, client, [entry for entry in entries if entry.answer is None])


def _answer_earlier(namespace: str, client: str, entries: list[_Entry]) -> None:
    """Answer what an earlier request with the same correlationId was answered, or that it was another request."""
    ids = [entry.request.correlation_id for entry in entries if entry.request.correlation_id]
    found = earlier.requests(namespace, client, ids)
    for entry in entries:
        if one := found.get(entry.request.correlation_id or ""):
            entry.answer = one.answer(entry.request, entry.digest)


def _prefer_repeats(namespace: str, client: str, entries: list[_Entry]) -> None:
    """A repetition is answered with its task also where the request would be refused by now."""
    refused = [e for e in entries if isinstance(e.answer, ReachError) and e.request.correlation_id]
    found = earlier.requests(namespace, client, [e.request.correlation_id or "" for e in refused])
    for entry in refused:
        one = found.get(entry.request.correlation_id or "")
        replay = one and one.answer(entry.request, entry.digest)
        if isinstance(replay, Accepted):
            entry.answer = replay


@robust(patience=_PATIENCE_S)
def _ids_there(task_ids: list[uuid.UUID]) -> set[uuid.UUID]:
    with hot_cursor() as cursor:
        return {row[0] for row in cursor.execute(_OWN, {"ids": task_ids}).fetchall()}


def _accepted(entry: _Entry) -> Accepted:
    return Accepted(entry.task_id, entry.trace_id, entry.request.correlation_id, TaskState.RECEIVED)


def _parents(principal: Principal, namespace: str, requests: list[ReachRequest]) -> dict[uuid.UUID, Parent]:
    """The named parents that this principal may name."""
    named = list({one.parent_id for one in requests if one.parent_id})
    if not named:
        return {}
    with hot_cursor() as cursor:
        rows = cursor.execute(_PARENTS, {"ids": named, "namespace": namespace}).fetchall()
    found = [_parent(row) for row in rows]
    is_client = principal.kind == "client"
    return {one.task_id: one for one in found if not is_client or one.client == principal.client}


def _parent(row: tuple[Any, ...]) -> Parent:
    task_id, namespace, client, agent_id, state, is_open, trace_id, call_path, deadline_at = row
    path = (*parse(call_path.encode()), *([agent_id] if agent_id else []))
    return Parent(task_id, namespace, client, agent_id, state, is_open, trace_id, path, deadline_at)

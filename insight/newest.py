"""The newest tasks that a person may see and a filter asks for, at a cost that does not grow with the table.

Ids are in the order of acceptance, and each index ends with the id: a lane is a range of an index in which the tasks
stand in their order (those of a namespace with an outcome, an ability or a client). The newest of each lane
are read and merged. What a lane does not say is looked for among the newest `SEEN` of it.
"""

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

from django.db import connection

from common.ids import floor_id
from insight.access import Viewer
from insight.filters import SPANS, Filter
from registry.models import Agent
from routing.states import FINAL, OPEN, TaskState

SEEN = 5_000
LANES_OF = 20  # namespaces whose lanes are merged; where somebody sees more, the table is read from its end

Values = dict[str, Any]
Statement = tuple[str, Values]

_LANE = """
SELECT t.id, t.state FROM {lanes} CROSS JOIN LATERAL (
  SELECT t.id, t.state FROM (
    SELECT {columns} FROM routing_task t WHERE {lane} {bounds} ORDER BY t.id DESC LIMIT {seen}
  ) t {rest} ORDER BY t.id DESC LIMIT %(limit)s) t"""
_SPACES = """(SELECT n.name FROM registry_namespace n
  WHERE %(spaces)s::text[] IS NULL OR n.name = ANY(%(spaces)s::text[])) s"""
_WHOLE = """
SELECT t.id, t.state FROM (
  SELECT {columns} FROM routing_task t WHERE {lane} {bounds} ORDER BY t.id DESC LIMIT {seen}
) t {rest} ORDER BY t.id DESC LIMIT %(limit)s"""
_TRIED = """
SELECT t.id, t.state FROM (
  SELECT DISTINCT a.task_id FROM unnest(%(agent_spaces)s::text[], %(agents)s::text[]) s(name, agent)
  CROSS JOIN LATERAL (
    SELECT DISTINCT a.task_id FROM routing_attempt a
    WHERE a.namespace = s.name AND a.agent_id = s.agent {bounds} ORDER BY a.task_id DESC LIMIT {seen}) a
  ORDER BY a.task_id DESC LIMIT {seen}
) tried JOIN routing_task t ON t.id = tried.task_id {rest} ORDER BY t.id DESC LIMIT %(limit)s"""
_OWN = "(t.namespace, t.agent_id) IN (SELECT * FROM unnest(%(agent_spaces)s::text[], %(agents)s::text[]))"
_TOLD = "EXISTS (SELECT FROM callbacks_callback c WHERE c.id = t.callback_id AND c.state = %(callback)s)"
_COLUMNS = ("ability", "client", "error")
_FIELDS = {"ability": "ability", "client": "client", "error": "error_code"}


def ids(
    viewer: Viewer, asked: Filter, now: dt.datetime, limit: int, before: uuid.UUID | None = None
) -> list[uuid.UUID]:
    """At most `limit` ids, the newest first, older than `before`."""
    sql, values = statement(viewer, asked, now, limit, before)
    return [row[0] for row in _rows(f"SELECT id FROM ({sql}) found ORDER BY id DESC", values)]  # noqa: S608


def counts(viewer: Viewer, asked: Filter, now: dt.datetime, limit: int) -> dict[str, int]:
    """By state among the newest `limit`, every state named."""
    sql, values = statement(viewer, asked, now, limit)
    found = _rows(f"SELECT state, count(*) FROM ({sql}) found GROUP BY 1", values)  # noqa: S608
    return dict.fromkeys(TaskState.values, 0) | dict(found)


def failed_with(viewer: Viewer, words: str, now: dt.datetime, among: int, limit: int) -> list[uuid.UUID]:
    """Ids of those among the newest `among` failed ones whose error message holds the words, at most `limit`."""
    sql, values = statement(viewer, Filter(states=(TaskState.FAILED, TaskState.TIMEOUT)), now, among)
    pattern = "%" + "".join(f"\\{letter}" if letter in "\\%_" else letter for letter in words) + "%"
    told = (
        f"SELECT t.id FROM ({sql}) found JOIN routing_task t ON t.id = found.id "  # noqa: S608
        "WHERE t.error_message ILIKE %(pattern)s ORDER BY t.id DESC LIMIT %(most)s"
    )
    return [row[0] for row in _rows(told, {**values, "pattern": pattern, "most": limit})]


def _rows(sql: str, values: Values) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def statement(
    viewer: Viewer, asked: Filter, now: dt.datetime, limit: int, before: uuid.UUID | None = None
) -> Statement:
    """A query for (id, state) of the newest `limit`."""
    spaces = _spaces(viewer, asked)
    low = floor_id(now - SPANS[asked.within]) if asked.within else None
    values: Values = {
        "limit": limit, "seen": SEEN, "spaces": spaces, "before": before, "low": low, "states": list(asked.states),
        "ability": asked.ability, "client": asked.client, "error": asked.error, "callback": asked.callback,
        "outcomes": sorted(FINAL & _states(asked)),
    }  # fmt: skip
    if viewer.agents is not None or asked.agent:
        pairs = _pairs(viewer, asked, spaces)
        values |= {"agent_spaces": [space for space, _ in pairs], "agents": [agent for _, agent in pairs]}
        rest = [*([_OWN] if viewer.agents is not None else []), *_rest(asked)]
        tried = _TRIED.format(bounds=_bounds(values, "a.task_id"), seen=_seen(rest), rest=_where(rest))
        return tried, values
    lanes = list(_lanes(asked, spaces, _bounds(values, "t.id")))
    merged = " UNION ALL ".join(lanes)
    return f"SELECT id, state FROM ({merged}) lanes ORDER BY id DESC LIMIT %(limit)s", values  # noqa: S608


def _spaces(viewer: Viewer, asked: Filter) -> list[str] | None:
    """The namespaces that are looked at; None = all."""
    allowed = None if viewer.namespaces is None else list(viewer.namespaces)
    if not asked.namespace:
        return allowed
    return [asked.namespace] if allowed is None or asked.namespace in allowed else []


def _pairs(viewer: Viewer, asked: Filter, spaces: list[str] | None) -> list[tuple[str, str]]:
    """(namespace, agent) of those whose attempts are looked at."""
    if viewer.agents is not None:
        found = sorted(viewer.agents)
    else:
        found = list(Agent.objects.filter(agent_id=asked.agent).values_list("namespace_id", "agent_id"))
    return [one for one in found if (spaces is None or one[0] in spaces) and asked.agent in ("", one[1])]


def _lanes(asked: Filter, spaces: list[str] | None, bounds: str) -> Iterator[str]:
    """The statements that are merged: of the narrowest ranges of an index that the filter names."""
    states = _states(asked)
    named = next((name for name in ("ability", "client") if getattr(asked, name)), None)
    if named and TaskState.SUCCEEDED in states:
        lane = f"t.namespace = s.name AND t.{_FIELDS[named]} = %({named})s"
        yield _lane(_SPACES, lane, "t.state", _rest(asked, without=named), bounds)
    elif len(states) < len(TaskState) or (spaces is not None and len(spaces) <= LANES_OF):
        yield from _by_outcome(asked, states, bounds)
    else:
        scope = "true" if spaces is None else "t.namespace = ANY(%(spaces)s)"
        rest = _rest(asked)
        yield _WHOLE.format(columns=_columns("t.state"), lane=scope, bounds=bounds, seen=_seen(rest), rest=_where(rest))


def _states(asked: Filter) -> set[str]:
    """Those that tasks of the filter may be in; what has succeeded has no error."""
    states = set(asked.states or TaskState.values)
    return states - {TaskState.SUCCEEDED} if asked.error else states


def _by_outcome(asked: Filter, states: set[str], bounds: str) -> Iterator[str]:
    """What has ended, by how it did; and what has not."""
    if FINAL & states:
        lanes = f"{_SPACES} CROSS JOIN unnest(%(outcomes)s::text[]) o(name)"
        lane, rest = "t.namespace = s.name AND t.outcome = o.name", _rest(asked, without="states")
        # The index alone tells the state of what has ended.
        yield _lane(lanes, lane, "t.outcome AS state", rest, bounds)
    if OPEN & states:
        yield _lane(_SPACES, "t.namespace = s.name AND t.outcome IS NULL", "t.state", _rest(asked), bounds)
    if not states:
        yield "SELECT id, state FROM routing_task WHERE false"


def _lane(lanes: str, lane: str, state: str, rest: list[str], bounds: str) -> str:
    columns = _columns(state) if rest else f"t.id, {state}"
    return _LANE.format(lanes=lanes, lane=lane, columns=columns, bounds=bounds, seen=_seen(rest), rest=_where(rest))


def _columns(state: str) -> str:
    return f"t.id, {state}, t.ability, t.client, t.error_code, t.callback_id"


def _rest(asked: Filter, without: str = "") -> list[str]:
    """The conditions that the filter sets, but one that a lane says."""
    equal = [f"t.{_FIELDS[name]} = %({name})s" for name in _COLUMNS if getattr(asked, name) and name != without]
    states = ["t.state = ANY(%(states)s)"] if asked.states and without != "states" else []
    return [*equal, *states, *([_TOLD] if asked.callback else [])]


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _seen(rest: list[str]) -> str:
    return "%(seen)s" if rest else "%(limit)s"


def _bounds(values: Values, column: str) -> str:
    before = f"AND {column} < %(before)s" if values["before"] else ""
    return before + (f" AND {column} >= %(low)s" if values["low"] else "")

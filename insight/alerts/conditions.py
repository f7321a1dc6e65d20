"""What is worth an alert: each condition is one query of bounded cost (of Redis where breakers are), and one line in
CONDITIONS."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import connection

from common.ids import floor_id
from insight.models import Alert
from routing import breaker

OFTEN = 4  # failed deliveries of one callback
DEAD_FOR = dt.timedelta(hours=1)  # a dead callback is pointed out for so long, or until it is delivered by hand
WINDOW = dt.timedelta(minutes=5)
BEFORE = dt.timedelta(days=1)  # what a latency is compared with: the same time of yesterday …
SINCE = dt.timedelta(hours=1)  # … or, without traffic then, the hour before
LEAST_CALLS = 20
NAMED = 20  # instances
MOST_ROWS = 20_000  # looked at by one condition
LONGEST_TASK = dt.timedelta(hours=1)  # ids are in the order of acceptance: how long before its end one may lie


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that holds now. `agent_id` names the agent whose owner is concerned."""

    namespace: str
    kind: str
    severity: str
    subject: str
    agent_id: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.namespace, self.kind, self.subject


@dataclass(frozen=True, slots=True)
class Condition:
    """What is looked for: `find` gives everything of these `kinds` that holds now."""

    kinds: frozenset[str]
    find: Callable[[dt.datetime], list[Trouble]]


_OFFLINE = """
SELECT a.namespace, a.agent_id, count(*) FILTER (WHERE i.state <> 'OFFLINE'),
  array_agg(i.instance_id ORDER BY i.instance_id) FILTER (WHERE i.state = 'OFFLINE'),
  (array_agg(i.reason ORDER BY i.state_since DESC) FILTER (WHERE i.state = 'OFFLINE'))[1]
FROM registry_agent a JOIN registry_instance i ON i.agent_id = a.id
WHERE a.deleted_at IS NULL AND NOT a.maintenance AND i.left_at IS NULL
GROUP BY a.id HAVING count(*) FILTER (WHERE i.state = 'OFFLINE') > 0"""
_FAILING = """
SELECT namespace, client, count(*), max(attempts), (array_agg(last_error ORDER BY attempts DESC))[1] FROM (
  SELECT namespace, client, attempts, last_error FROM callbacks_callback
  WHERE state = 'PENDING' ORDER BY due_at LIMIT %(most)s) due
WHERE attempts >= %(often)s GROUP BY 1, 2"""
_DEAD = """
SELECT namespace, client, count(*), (array_agg(last_error ORDER BY id DESC))[1] FROM (
  SELECT id, namespace, client, last_error FROM callbacks_callback
  WHERE state = 'DEAD' AND ended_at >= %(since)s LIMIT %(most)s) dead
GROUP BY 1, 2"""
_QUEUE = """
SELECT namespace, ability, count(*), extract(epoch FROM %(now)s - min(due_at)) FROM (
  SELECT namespace, ability, due_at FROM routing_task
  WHERE waiting AND due_at < %(since)s AND deadline_at > %(now)s ORDER BY due_at LIMIT %(most)s) late
GROUP BY 1, 2"""
_SUCCESS = """
SELECT namespace, ability, count(*), count(*) FILTER (WHERE outcome = 'SUCCEEDED') FROM (
  SELECT namespace, ability, outcome FROM routing_task
  WHERE id >= %(low)s AND outcome IN ('SUCCEEDED', 'FAILED', 'TIMEOUT') AND ended_at >= %(since)s
  ORDER BY id DESC LIMIT %(most)s) ended
GROUP BY 1, 2 HAVING count(*) >= %(least)s"""
_LATENCY = """
SELECT namespace, agent_id, count(*), percentile_disc(0.95) WITHIN GROUP (ORDER BY ms) FROM (
  SELECT namespace, agent_id, 1000 * extract(epoch FROM ended_at - sent_at) AS ms FROM routing_attempt
  WHERE task_id >= %(low)s AND task_id < %(high)s AND outcome = 'SUCCEEDED'
  ORDER BY task_id DESC LIMIT %(most)s) calls
GROUP BY 1, 2 HAVING count(*) >= %(least)s"""


def offline(now: dt.datetime) -> list[Trouble]:
    """Agents of which nobody is left, and agents of which some instances are out."""
    found = []
    for namespace, agent_id, others, out, reason in _rows(_OFFLINE, {}):
        details = {"out": len(out), "instances": out[:NAMED], "others": others, "reason": reason}
        kind, severity = Alert.Kind.INSTANCES_OFFLINE, Alert.Severity.WARNING
        if not others:
            kind, severity = Alert.Kind.AGENT_OFFLINE, Alert.Severity.CRITICAL
        found.append(Trouble(namespace, kind, severity, f"agent:{agent_id}", agent_id, details))
    return found


def breakers_open(now: dt.datetime) -> list[Trouble]:
    """Agents of which breakers keep tasks away. Raises RedisAway."""
    circuits = breaker.view().all_open(now.timestamp())
    found = []
    for namespace, agent_id in sorted({key[:2] for key in circuits}):
        shown = breaker.of_agent(circuits, namespace, agent_id, now.timestamp())
        barred = [instance_id for instance_id, one in shown.items() if one.own]
        clients = sorted({circuit.client for one in shown.values() for circuit in one.clients})
        details = {
            "open": len(barred), "instances": barred[:NAMED], "forClients": len(clients), "clients": clients[:NAMED],
        }  # fmt: skip
        subject = f"agent:{agent_id}"
        found.append(Trouble(namespace, Alert.Kind.BREAKER_OPEN, Alert.Severity.WARNING, subject, agent_id, details))
    return found


def callbacks_failing(now: dt.datetime) -> list[Trouble]:
    """Receivers that have refused a callback four times and are still tried."""
    rows = _rows(_FAILING, {"most": MOST_ROWS, "often": OFTEN})
    return [
        Trouble(namespace, Alert.Kind.CALLBACK_FAILING, Alert.Severity.WARNING, f"client:{client}", "",
                {"callbacks": count, "deliveries": tried, "lastError": error})
        for namespace, client, count, tried, error in rows
    ]  # fmt: skip


def callbacks_dead(now: dt.datetime) -> list[Trouble]:
    """Receivers that were given up."""
    rows = _rows(_DEAD, {"most": MOST_ROWS, "since": now - DEAD_FOR})
    return [
        Trouble(namespace, Alert.Kind.CALLBACK_DEAD, Alert.Severity.CRITICAL, f"client:{client}", "",
                {"callbacks": count, "lastError": error})
        for namespace, client, count, error in rows
    ]  # fmt: skip


def queue_age(now: dt.datetime) -> list[Trouble]:
    """Abilities whose tasks have been due for too long."""
    since = now - dt.timedelta(seconds=settings.REACH_ALERT_QUEUE_AGE_S)
    rows = _rows(_QUEUE, {"most": MOST_ROWS, "since": since, "now": now})
    return [
        Trouble(namespace, Alert.Kind.QUEUE_AGE, Alert.Severity.WARNING, f"ability:{ability}", "",
                {"tasks": count, "oldestSeconds": round(float(age))})
        for namespace, ability, count, age in rows
    ]  # fmt: skip


def success_low(now: dt.datetime) -> list[Trouble]:
    """Abilities whose tasks of the last five minutes succeeded less often than they should."""
    values = {"low": floor_id(now - LONGEST_TASK), "since": now - WINDOW, "least": LEAST_CALLS, "most": MOST_ROWS}
    found = []
    for namespace, ability, count, good in _rows(_SUCCESS, values):
        if good / count < settings.REACH_ALERT_SUCCESS:
            details = {"ended": count, "success": round(good / count, 4), "target": settings.REACH_ALERT_SUCCESS}
            subject = f"ability:{ability}"
            found.append(Trouble(namespace, Alert.Kind.SUCCESS_LOW, Alert.Severity.CRITICAL, subject, details=details))
    return found


def latency_shifted(now: dt.datetime) -> list[Trouble]:
    """Agents that answer, but much slower than at the same time of yesterday, or else than in the hour before."""
    recent = _p95(now - WINDOW, now)
    if not recent:
        return []
    yesterday, hour = _p95(now - BEFORE - WINDOW, now - BEFORE), _p95(now - SINCE, now - WINDOW)
    found = []
    for (namespace, agent_id), p95 in recent.items():
        usual = yesterday.get((namespace, agent_id)) or hour.get((namespace, agent_id))
        if usual and p95 > usual * settings.REACH_ALERT_LATENCY_RATIO:
            details = {"p95Ms": round(p95), "usualP95Ms": round(usual)}
            subject = f"agent:{agent_id}"
            found.append(
                Trouble(namespace, Alert.Kind.LATENCY_SHIFTED, Alert.Severity.WARNING, subject, agent_id, details)
            )
    return found


def _p95(start: dt.datetime, end: dt.datetime) -> dict[tuple[str, str], float]:
    """Milliseconds by (namespace, agent id) of the tasks accepted in that time, for those with enough calls."""
    values = {"low": floor_id(start), "high": floor_id(end), "least": LEAST_CALLS, "most": MOST_ROWS}
    return {(namespace, agent_id): float(p95) for namespace, agent_id, _, p95 in _rows(_LATENCY, values)}


def _rows(sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


CONDITIONS: tuple[Condition, ...] = (
    Condition(frozenset({Alert.Kind.AGENT_OFFLINE, Alert.Kind.INSTANCES_OFFLINE}), offline),
    Condition(frozenset({Alert.Kind.BREAKER_OPEN}), breakers_open),
    Condition(frozenset({Alert.Kind.CALLBACK_FAILING}), callbacks_failing),
    Condition(frozenset({Alert.Kind.CALLBACK_DEAD}), callbacks_dead),
    Condition(frozenset({Alert.Kind.QUEUE_AGE}), queue_age),
    Condition(frozenset({Alert.Kind.SUCCESS_LOW}), success_low),
    Condition(frozenset({Alert.Kind.LATENCY_SHIFTED}), latency_shifted),
)

"""Agents that answer after hours: what waits for them is a row, and nothing else."""

import asyncio
import json
import threading
from urllib.parse import urlsplit

import psutil
import pytest
from aiohttp import web
from django.test import Client

from common import clock, outbound
from common.json import parse
from routing.api import reports
from routing.engine import keeper
from routing.services.sweep import sweep
from tests.routing.engine.later import put_forward
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task

DAY_MS, TWO_HOURS = 24 * 3600 * 1000, 2 * 3600
MANY = 300


@pytest.fixture(autouse=True)
def _no_connection_is_kept_for_long(monkeypatch):
    """Before the engine starts: connections are kept for the next request for some seconds, whoever waits."""
    monkeypatch.setattr(outbound, "KEEP_ALIVE_S", 0.2)
    monkeypatch.setattr(keeper, "LOOK_S", 0.1)


@pytest.fixture
def later(monkeypatch):
    found = put_forward(monkeypatch)
    monkeypatch.setattr(reports, "now", clock.now)
    return found


def taking(said):
    """Takes every task; what its status address says is in `said`, and nothing is said there while that is empty."""

    async def answer(received):
        if received.path.startswith("/jobs"):
            return web.json_response(said)
        given = parse(received.body)
        body = {} if said is None else {"statusUrl": f"/jobs/{given['taskId']}"}
        return web.json_response(body, status=202)

    return answer


def running(task_ids):
    """Wait until the agent has them all."""
    wait_until(lambda: _count("SELECT count(*) FROM routing_task WHERE id = ANY(%s) AND state = 'RUNNING'", task_ids))


def _count(statement, task_ids):
    return rows(statement, [*task_ids])[0]["count"] == len(task_ids)


def report(received, data):
    """What the agent tells, hours later, with the token that it was given."""
    given = parse(received.body)
    body = json.dumps({"attemptKey": given["attemptKey"], "status": "SUCCEEDED", "data": data})
    own = {"Authorization": f"Bearer {given['resultToken']}"}
    return Client().post(urlsplit(given["resultUrl"]).path, body, "application/json", headers=own)


def test_a_report_after_two_hours_ends_the_task(engine, town, later):
    town.agent.answer = taking(None)
    task_id = town.submit(timeoutMs=DAY_MS)
    running([task_id])
    later(TWO_HOURS)
    sweep(clock.now())
    assert (task(task_id)["state"], report(town.agent.received[0], {"y": 2}).status_code) == ("RUNNING", 200)
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"], parse(bytes(row["result"]))["data"]) == ("SUCCEEDED", 1, {"y": 2})
    assert (row["ended_at"] - row["received_at"]).total_seconds() >= TWO_HOURS


def test_a_status_address_that_is_done_after_two_hours_ends_the_task(engine, town, later):
    said = {"status": "RUNNING"}
    town.agent.answer = taking(said)
    task_id = town.submit(timeoutMs=DAY_MS)
    running([task_id])
    later(TWO_HOURS)
    town.agent.wait_for(2)
    said |= {"status": "SUCCEEDED", "data": {"y": 3}}
    later(60)
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"], parse(bytes(row["result"]))["data"]) == ("SUCCEEDED", 1, {"y": 3})


def test_a_report_after_its_time_comes_too_late(engine, town, later):
    town.agent.answer = taking(None)
    task_id = town.submit(timeoutMs=TWO_HOURS * 1000, timeoutBudgetMs=TWO_HOURS * 1000)
    running([task_id])
    later(TWO_HOURS + 60)
    sweep(clock.now())
    [row] = town.ended(task_id)
    assert (row["state"], report(town.agent.received[0], {"y": 2}).status_code) == ("TIMEOUT", 409)
    assert parse(bytes(task(task_id)["late"]))["data"] == {"y": 2}


class Held:
    """What this process holds on an engine's behalf."""

    def __init__(self, engine, agent):
        self._engine, self._agent = engine, agent
        self.work, self.threads, self.sessions = len(self._work()), threading.active_count(), self._sessions()

    def is_nothing_more(self):
        """Tasks, coroutines, connections and transactions; threads and sessions of the database but for pools."""
        return (
            self._engine.held == 0
            and len(self._work()) <= self.work
            and not self._connections()
            and not self._sessions("AND state LIKE 'idle in transaction%%'")
            and threading.active_count() <= self.threads + 16
            and self._sessions() <= self.sessions + 16
        )

    def _work(self):
        return asyncio.all_tasks(self._engine._loop)

    def _connections(self):
        ours = psutil.Process().net_connections("tcp")
        return [one for one in ours if one.raddr and one.raddr.port == self._agent.port and one.status == "ESTABLISHED"]

    def _sessions(self, which=""):
        among = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return rows(f"SELECT count(*) {among} {which}")[0]["count"]


@pytest.mark.parametrize("how", ["reported", "polled"])
def test_hundreds_that_wait_for_their_agent_hold_nothing(engine, town, how):
    wait_until(lambda: engine.held == 0)
    before = Held(engine, town.agent)
    town.agent.answer = taking(None if how == "reported" else {"status": "RUNNING"})
    waiting = []
    for _ in range(0, MANY, 50):  # not all at once, which a slow machine would take for a sick agent
        waiting += [town.submit(timeoutMs=DAY_MS) for _ in range(50)]
        running(waiting)
    if how == "polled":
        wait_until(lambda: len(town.agent.received) >= 2 * MANY)  # each was asked once
        # between two questions
        rows("UPDATE routing_task SET due_at = now() + interval '1 hour' WHERE id = ANY(%s) RETURNING id", waiting)
    wait_until(before.is_nothing_more)
    open_ones = "SELECT count(*) FROM routing_attempt WHERE task_id = ANY(%s) AND ended_at IS NULL AND worker IS NULL"
    assert _count(open_ones, waiting)


COPIES = """
INSERT INTO routing_task (id, namespace, client, ability, trace_id, traceparent, call_path, priority, state,
  state_since, seq, waiting, due_at, attempts, max_attempts, round, idempotency_key, created_at, budget_at, expires_at,
  deadline_at, timings)
SELECT uuidv7(), namespace, client, ability, trace_id, traceparent, call_path, priority, 'RETRY_WAIT', state_since, 1,
  true, now() + interval '1 hour', 1, max_attempts, round, n::text, created_at, now() + interval '1 day',
  now() + interval '1 day', now() + interval '1 day', timings
FROM routing_task, generate_series(1, %s) n WHERE id = %s RETURNING id"""
UNTOUCHED = """
SELECT count(*) FROM routing_task WHERE namespace = %s AND state = 'RETRY_WAIT' AND worker IS NULL AND seq = 1"""


@pytest.mark.slow  # it leaves an index full of dead entries to the tests after it
def test_thousands_that_wait_for_their_retry_are_in_nobodys_hands_and_in_nobodys_way(engine, town):
    first = town.submit()
    town.ended(first)
    assert len(rows(COPIES, 20_000, first)) == 20_000
    [row] = town.ended(town.submit())
    assert row["state"] == "SUCCEEDED"
    wait_until(lambda: engine.held == 0)
    assert rows(UNTOUCHED, town.namespace) == [{"count": 20_000}]

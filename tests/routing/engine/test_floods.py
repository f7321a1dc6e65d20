"""Neither many tasks of one client nor many of low priority hold up those of others, also where instances are busy."""

import asyncio
import statistics
import time
import uuid

import pytest
from aiohttp import web

from routing.engine import trip
from tests.routing.engine.local import Received, wait_until
from tests.routing.services.world import rows

FLOOD = {"client": "flood", "metadata": {"priority": "low"}}


def sent_order(town):
    """Clients and priorities in the order in which their tasks were sent."""
    return [
        (row["client"], row["priority"])
        for row in rows(
            "SELECT t.client, t.priority FROM routing_attempt a JOIN routing_task t ON t.id = a.task_id "
            "WHERE a.namespace = %s ORDER BY a.sent_at, a.task_id",
            town.namespace,
        )
    ]


def test_who_comes_late_to_a_busy_instance_does_not_wait_for_the_flood(engine, town, monkeypatch):
    monkeypatch.setattr(trip, "SLOT_WAIT_S", 30.0)  # nobody leaves the line for being slow
    gate = asyncio.Event()

    async def hold(_: Received) -> web.Response:
        await asyncio.wait_for(gate.wait(), 30)
        return web.json_response({})

    town.change(town.instance(), max_concurrency=5)  # four at a time
    town.agent.answer = hold
    flood = [town.submit(**FLOOD) for _ in range(130)]
    engine.look()
    town.agent.wait_for(4)
    late = [town.submit(metadata={"priority": "high"}), town.submit(client="single", metadata={"priority": "low"})]
    engine.claim(late)
    line = engine._slots._waiting[town.namespace, "echo"]
    wait_until(lambda: line.has((0, "shop")) and line.has((2, "single")), 15.0)
    town.agent._loop.call_soon_threadsafe(gate.set)
    town.ended(*late, seconds=30.0)
    order = sent_order(town)
    assert order.index(("shop", 0)) <= 6
    assert order.index(("single", 2)) <= 8
    rows("UPDATE routing_task SET waiting = false WHERE id = ANY(%s) AND waiting RETURNING id", flood)


BACKLOG = """
INSERT INTO routing_task (id, namespace, client, ability, trace_id, traceparent, call_path, priority, state, state_since,
  seq, waiting, due_at, attempts, max_attempts, round, idempotency_key, created_at, budget_at, expires_at, deadline_at,
  timings)
SELECT uuidv7(), namespace, 'flood', ability, trace_id, traceparent, call_path, priority, state, state_since,
  seq, true, due_at, attempts, max_attempts, round, n::text, created_at, budget_at, expires_at, deadline_at, timings
FROM routing_task, generate_series(1, 100000) n WHERE id = %s RETURNING id"""


@pytest.mark.slow
def test_behind_a_hundred_thousand_of_another_client_one_is_sent_within_a_second(engine, town, record_property):
    async def answer(_: Received) -> web.Response:
        await asyncio.sleep(0.05)
        return web.json_response({})

    town.change(town.instance(), max_concurrency=25)
    town.agent.answer = answer
    first = town.submit(**FLOOD)
    rows(BACKLOG, first)
    rows("INSERT INTO routing_taskbody (task_id, request) SELECT t.id, b.request FROM routing_task t, routing_taskbody b "
         "WHERE b.task_id = %s AND t.namespace = %s AND t.id <> %s RETURNING task_id", first, town.namespace, first)  # fmt: skip
    engine.look()
    town.agent.wait_for(50)
    single = [delay(engine, town, client="single", metadata={"priority": "low"}) for _ in range(20)]
    high = [delay(engine, town, metadata={"priority": "high"}) for _ in range(20)]
    measured = {"single": single, "high": high}
    record_property("sent after, s", {name: (statistics.median(found), max(found)) for name, found in measured.items()})
    rows("UPDATE routing_task SET waiting = false WHERE namespace = %s AND waiting RETURNING id", town.namespace)
    assert max(single) < 1.0, measured
    assert statistics.median(high) < 0.2, measured


def delay(engine, town, **fields) -> float:
    """Seconds from being accepted until being sent."""
    task_id: uuid.UUID = town.submit(**fields)
    engine.claim([task_id])
    town.ended(task_id)
    time.sleep(0.05)  # one after the other, with the flood in between
    [row] = rows("SELECT sent_at - created_at AS took FROM routing_task WHERE id = %s", task_id)
    return row["took"].total_seconds()

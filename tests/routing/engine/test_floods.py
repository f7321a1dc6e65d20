"""Neither many tasks of one client nor many of low priority hold up those of others, also where instances are busy."""

import asyncio

from aiohttp import web

from routing.engine import preparing
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
    monkeypatch.setattr(preparing, "SLOT_WAIT_S", 30.0)  # nobody leaves the line for being slow
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

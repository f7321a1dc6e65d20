"""Whose turn it is where instances are busy, also after a stay in the database; and that nobody else is held up."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from django.db import transaction

from registry.models import Capability
from registry.services.changes import touch
from routing.engine import preparing
from tests.routing.engine.local import Received, wait_until
from tests.routing.services.world import rows


@pytest.fixture
def gate(town: Any) -> Iterator[Callable[[], None]]:
    """The agent answers nobody until gate() is called."""
    opened = asyncio.Event()

    async def hold(_: Received) -> web.Response:
        await opened.wait()
        return web.json_response({})

    town.agent.answer = hold
    yield lambda: town.agent._loop.call_soon_threadsafe(opened.set)
    rows("UPDATE routing_task SET waiting = false WHERE namespace = %s AND waiting RETURNING id", town.namespace)


def line(engine, town):
    return engine._slots._waiting.get((town.namespace, "echo"), ())


def test_whoever_has_waited_longest_is_first_also_after_a_stay_in_the_database(engine, town, gate, monkeypatch):
    monkeypatch.setattr(preparing, "SLOT_WAIT_S", 0.2)
    monkeypatch.setattr(preparing, "LINE_S", 300.0)
    town.change(town.instance(), max_concurrency=1)
    engine.claim([town.submit()])
    town.agent.wait_for(1)
    tasks = [town.submit() for _ in range(8)]
    engine.claim(tasks[::-1])
    wait_until(lambda: all("WAITING" in town.events(one) for one in tasks) and len(line(engine, town)) == 8, 60)
    gate()
    town.ended(*tasks, seconds=60)
    sent = rows("SELECT task_id FROM routing_attempt WHERE namespace = %s ORDER BY sent_at", town.namespace)
    assert [row["task_id"] for row in sent][1:] == tasks


def test_tasks_of_a_hanging_agent_hold_up_no_other_ability(engine, town, gate, serve):
    quick = serve()
    with transaction.atomic():
        town.add_agent("second", quick.url)
        Capability.objects.filter(agent__namespace=town.namespace, agent__agent_id="second").update(name="quick")
        touch(town.namespace)
    town.change(town.instance_of("worker"), max_concurrency=20)
    hanging = [town.submit() for _ in range(130)]
    engine.look()
    wait_until(lambda: len(town.agent.received) == 16 and len(line(engine, town)) >= 100, 60)
    others = [town.submit(target={"ability": "quick"}) for _ in range(10)]
    engine.look()
    town.ended(*others, seconds=60)
    assert len(quick.received) == 10
    assert not rows("SELECT id FROM routing_task WHERE id = ANY(%s) AND outcome IS NOT NULL", hanging)

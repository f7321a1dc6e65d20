"""A cancel reaches the agent: its call is broken off, and its cancel address is told."""

import asyncio
import uuid

import pytest
from aiohttp import web
from django.db import transaction

from common import clock
from common.json import parse
from registry.models import Agent
from registry.services.changes import touch
from routing.engine import cancels
from routing.services import notices
from routing.services.cancel import cancel
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task

ANSWERS_202 = {"/": 202}


def with_cancel_address(town, path="/cancel"):
    with transaction.atomic():
        spec = {"endpoints": {"cancel": town.agent.url + path}}
        Agent.objects.filter(namespace=town.namespace).update(manifest={"spec": spec})
        touch(town.namespace)


def answering(cancels_with=200, hold=None):
    """An agent that takes tasks (or holds them until `hold`) and answers the cancel address so."""

    async def answer(received):
        if received.path == "/cancel":
            return web.json_response({}, status=cancels_with)
        if hold is not None:
            await hold()
        return web.json_response({}, status=202)

    return answer


def cancelled(town, state="RUNNING"):
    """A task that is cancelled while its agent works on it."""
    task_id = town.submit()
    town.agent.wait_for(1)
    wait_until(lambda: task(task_id)["state"] == state)
    cancel(task_id, "shop", clock.now())
    return task_id


def told(task_id, event="CANCEL_TOLD"):
    """The detail of the event that says so."""
    found = "SELECT detail FROM routing_event WHERE task_id = %s AND event = %s"
    wait_until(lambda: rows(found, task_id, event))
    return parse(rows(found, task_id, event)[0]["detail"].encode())


def test_an_agent_that_works_on_its_own_is_told_at_its_cancel_address(engine, town):
    with_cancel_address(town)
    town.agent.answer = answering()
    task_id = cancelled(town)
    sent, call = town.agent.wait_for(2)
    body = parse(call.body)
    assert (body["messageType"], body["taskId"]) == ("task.cancel", str(task_id))
    assert body["attemptKey"] == parse(sent.body)["attemptKey"]
    assert "Signature" in call.headers
    assert told(task_id) == {"by": "address", "status": 200, "tries": 1}


def test_it_is_told_once_however_many_workers_hear_of_it(engine, town):
    with_cancel_address(town)
    town.agent.answer = answering()
    task_id = cancelled(town)
    told(task_id)
    assert notices.take([task_id], clock.now() + 2 * notices.LEASE) == []
    assert len(town.agent.received) == 2


def test_an_agent_that_does_not_listen_is_tried_a_few_times_and_the_journey_says_so(engine, town, monkeypatch):
    monkeypatch.setattr(cancels, "TRIES_AFTER_S", (0.0, 0.0, 0.0))
    with_cancel_address(town)
    town.agent.answer = answering(503)
    task_id = cancelled(town)
    assert told(task_id, "CANCEL_NOT_TOLD") == {"by": "address", "status": 503, "tries": 3}
    assert task(task_id)["state"] == "CANCELLED"


def test_a_call_under_way_is_broken_off(engine, town):
    left = asyncio.Event()

    async def hold():
        try:
            await asyncio.sleep(60)
        finally:
            left.set()

    town.agent.answer = answering(hold=hold)
    task_id = cancelled(town, "DISPATCHED")
    assert told(task_id) == {"by": "connection", "channel": "http"}
    wait_until(lambda: engine.held == 0)


def test_without_redis_both_are_found_by_looking(engine, town, monkeypatch):
    monkeypatch.setattr(notices, "hurry", lambda ids: None)
    monkeypatch.setattr(cancels, "LOST_EACH_S", 0.0)
    with_cancel_address(town)
    town.agent.answer = answering(hold=lambda: asyncio.sleep(60))
    task_id = cancelled(town, "DISPATCHED")
    wait_until(lambda: town.events(task_id).count("CANCEL_TOLD") == 2)


def test_a_worker_that_dies_over_it_leaves_it_to_another(town, engine, monkeypatch):
    monkeypatch.setattr(notices, "hurry", lambda ids: None)
    with_cancel_address(town)
    town.agent.answer = answering()
    task_id = cancelled(town)
    now = clock.now()
    assert len(notices.take([task_id], now)) == 1
    assert notices.take([task_id], now + notices.LEASE / 2) == []
    assert task_id in notices.lost(now + notices.LEASE)


@pytest.mark.parametrize(("address", "says"), [(True, "ADDRESS"), (False, "REPORT")])
def test_the_journey_says_how_the_agent_hears_of_it(engine, town, address, says):
    if address:
        with_cancel_address(town)
    town.agent.answer = answering()
    task_id = cancelled(town)
    assert told(task_id, "CANCELLED")["agentToldBy"] == says


def test_a_task_that_nobody_has_tells_nobody(engine, town):
    with_cancel_address(town)
    task_id = town.submit(notBefore="2100-01-01T00:00:00.000Z", ttlMs=86_400_000)
    cancel(task_id, "shop", clock.now())
    assert "agentToldBy" not in told(task_id, "CANCELLED")
    assert town.agent.received == []


def test_an_attempt_that_ended_otherwise_is_not_among_the_cancelled(engine, town):
    task_id = town.submit()
    town.ended(task_id)
    [row] = rows("SELECT key FROM routing_attempt WHERE task_id = %s", task_id)
    assert notices.cancelled([(task_id, row["key"]), (task_id, uuid.uuid4())]) == set()

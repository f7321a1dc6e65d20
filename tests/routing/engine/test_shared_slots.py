"""Slots over several engines: real database, real Redis, real agents."""

import asyncio
import uuid

import pytest
from aiohttp import web
from django.db import transaction

from common import clock, redis
from common.json import dumps, parse
from insight.journey import journey
from registry.services.changes import touch
from routing.engine.loop import Engine
from routing.limits import slots
from routing.limits.slots import Slot
from routing.models import Candidate, Route
from routing.services.cancel import cancel
from routing.services.mend_slots import mend
from routing.services.report import result
from routing.services.sweep import sweep
from tests.routing.engine.local import wait_until
from tests.routing.services.world import task


@pytest.fixture(autouse=True)
def _own_redis(settings):
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def other_engine(engine):
    other = Engine(room=500)
    other.start()
    yield other
    other.stop(2.0)


async def accepted(_):
    return web.json_response({}, status=202)


def place(town):
    return (town.namespace, "worker", "i1")


def inflight(town):
    return slots.count([place(town)])[place(town)]


def limit(town, most):
    """The agent's instance gets so many at a time."""
    town.change(town.instance(), max_concurrency=-(-most * 10 // 8))


def limit_ability(town, most):
    with transaction.atomic():
        route = Route.objects.create(
            namespace_id=town.namespace, ability="echo", settings={"limits": {"maxInflight": most}}
        )
        Candidate.objects.create(route=route, agent_id="worker", capability="echo")
        touch(town.namespace)


def accept_one(engine, town):
    """A task that the agent works on by itself, and the key of its attempt."""
    town.agent.answer = accepted
    task_id = town.submit(retry={"maxAttempts": 1})
    engine.claim([task_id])
    wait_until(lambda: "RUNNING" in town.events(task_id))
    return task_id, uuid.UUID(parse(town.agent.received[-1].body)["attemptKey"])


def report(task_id, key):
    result(task_id, key, dumps({"attemptKey": str(key), "status": "SUCCEEDED", "data": {}}), clock.now())


def test_a_202_keeps_its_slot_until_its_result_is_reported(engine, town):
    limit(town, 1)
    first, key = accept_one(engine, town)
    second = town.submit()
    engine.claim([second])
    wait_until(lambda: "WAITING" in town.events(second))
    assert (len(town.agent.received), inflight(town)) == (1, 1)
    report(first, key)
    town.agent.wait_for(2)


def test_a_202_that_is_called_off_gives_its_slot_back(engine, town):
    task_id, _ = accept_one(engine, town)
    assert inflight(town) == 1
    cancel(task_id, "somebody", clock.now())
    assert inflight(town) == 0


def test_a_202_that_is_swept_gives_its_slot_back(engine, town):
    task_id, _ = accept_one(engine, town)
    sweep(task(task_id)["deadline_at"])
    assert town.ended(task_id)[0]["state"] == "TIMEOUT"
    assert inflight(town) == 0


def test_a_call_that_is_answered_gives_its_slot_back_at_once(engine, town):
    tasks = [town.submit() for _ in range(20)]
    engine.claim(tasks)
    town.ended(*tasks)
    wait_until(lambda: inflight(town) == 0, 2)


def test_several_processes_together_keep_to_an_instances_limit(engine, other_engine, town):
    running, most = 0, 0

    async def watched(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return web.json_response({})

    limit(town, 4)
    town.agent.answer = watched
    tasks = [town.submit() for _ in range(60)]
    engine.claim(tasks[:30])
    other_engine.claim(tasks[30:])
    assert {row["state"] for row in town.ended(*tasks)} == {"SUCCEEDED"}
    assert most == 4


def test_an_abilitys_limit_lets_tasks_wait_and_uses_no_attempt(engine, other_engine, town):
    limit_ability(town, 1)
    first, key = accept_one(engine, town)
    second = town.submit()
    other_engine.claim([second])
    wait_until(lambda: "WAITING" in town.events(second))
    found = journey(second, clock.now())
    assert found["events"][-1]["detail"]["reason"] == "ABILITY_BUSY"
    assert "the ability has as much under way as it may" in found["summary"]["cause"]["en"]
    report(first, key)
    wait_until(lambda: "RUNNING" in town.events(second))
    assert task(second)["attempts"] == 1


def test_a_redis_that_comes_back_empty_knows_all_open_attempts_before_it_grants_any(engine, town):
    limit(town, 1)
    first, key = accept_one(engine, town)
    redis.call(lambda client: client.delete(*client.scan_iter(redis.key("slots", "*"))))
    second = town.submit()
    engine.claim([second])
    wait_until(lambda: "WAITING" in town.events(second))
    assert (len(town.agent.received), inflight(town)) == (1, 1)
    report(first, key)
    town.agent.wait_for(2)


def test_mending_takes_out_what_has_ended_and_leaves_what_runs_or_is_about_to(engine, town):
    accept_one(engine, town)
    ability = (town.namespace, "echo")
    ended, begins = (Slot(uuid.uuid4().hex, place(town), ability) for _ in range(2))
    leased = Slot("route-1", place(town), ability)
    slots.hold([(ended, 600_000), (begins, 15_000), (leased, 600_000)])
    mend()
    assert inflight(town) == 3
    assert ended.attempt not in slots.everything()[slots.key_of(place(town))]


def test_tasks_flow_while_redis_is_away_and_slots_are_shared_again_afterwards(engine, town, monkeypatch):
    call = redis.call

    def away(_):
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", away)
    task_id, _ = accept_one(engine, town)
    monkeypatch.setattr(redis, "call", call)
    wait_until(lambda: inflight(town) == 1, 5)
    assert task(task_id)["state"] == "RUNNING"

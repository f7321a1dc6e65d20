"""Agents that call agents: the path grows, the budget shrinks, and no circle goes on for ever."""

import asyncio

import pytest
from aiohttp import web

from common import clock
from common.json import dumps, parse
from insight.journey import journey
from registry.principal import Principal
from routing.requests import parse as request_of
from routing.services import accept as accepting
from tests.routing.engine.local import wait_until
from tests.routing.engine.test_breaker import submit
from tests.routing.engine.test_fallback import stand_in
from tests.routing.services.world import rows


@pytest.fixture
def chain(engine, town):
    """chain("a", "b", …): each agent calls the next one before it answers; returns their servers."""

    def child(agent_id, ability, sent):
        principal = Principal("agent", town.namespace, None, agent_id, frozenset({"tasks:write"}), ("*",))
        asked = {"target": {"ability": ability}, "payload": {"x": 1}, "parentTaskId": sent["taskId"]}
        made = accepting.accept(
            principal, town.namespace, request_of(dumps(asked)), traceparent=None, now=clock.now()
        )  # fmt: skip
        engine.claim([made.task_id])

    def caller(agent_id, ability):
        async def answer(received):
            await asyncio.sleep(0.02)
            if ability:
                await asyncio.to_thread(child, agent_id, ability, parse(received.body))
            return web.json_response({"y": 1})

        return answer

    def link(*names, then=None):
        following = [*names[1:], then]
        return [stand_in(town, name, caller(name, after)) for name, after in zip(names, following, strict=True)]

    return link


def tasks_of(town, count):
    """The namespace's tasks, oldest first, once there are so many and all have ended."""
    found = "SELECT * FROM routing_task WHERE namespace = %s ORDER BY id"

    def ended():
        there = rows(found, town.namespace)
        return len(there) == count and all(row["outcome"] for row in there)

    wait_until(ended, 30)
    return rows(found, town.namespace)


def test_a_circle_ends_as_a_loop(engine, town, chain):
    chain("a", "b", then="a")
    submit(engine, town, target={"ability": "a"})
    tasks = tasks_of(town, 5)
    assert [row["ability"] for row in tasks] == ["a", "b", "a", "b", "a"]
    assert [row["error_code"] for row in tasks] == [None] * 4 + ["LOOP_DETECTED"]
    assert (tasks[-1]["state"], tasks[-1]["attempts"]) == ("FAILED", 0)
    assert parse(tasks[-1]["call_path"].encode()) == ["a", "b", "a", "b"]


def test_a_chain_of_nine_hops_ends_as_a_loop_and_its_budget_shrinks_at_each(engine, town, chain):
    servers = chain(*(f"hop{n}" for n in range(1, 10)))
    submit(engine, town, target={"ability": "hop1"}, timeoutBudgetMs=20_000)
    tasks = tasks_of(town, 9)
    assert [row["error_code"] for row in tasks] == [None] * 8 + ["LOOP_DETECTED"]
    assert not servers[-1].received
    told = [parse(server.received[0].body)["timeoutBudgetMs"] for server in servers[:-1]]
    shown = [budget_in_journey(row["id"]) for row in tasks[:-1]]
    for budgets in (told, shown):
        assert budgets == sorted(set(budgets), reverse=True)
        assert budgets[0] <= 20_000


def budget_in_journey(task_id):
    events = journey(task_id, clock.now())["events"]
    return next(event["detail"]["budgetMs"] for event in events if event["event"] == "DISPATCHED")

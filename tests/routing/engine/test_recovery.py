"""What the engine does when the database goes away, and when it is stuck."""

import asyncio
import datetime as dt
import time
from types import SimpleNamespace

import pytest
from aiohttp import web
from django.db import connection

from common import clock
from insight.journey import journey
from routing.engine.keeper import STUCK_BATCH_S, STUCK_S, Watchdog
from routing.policy import decide
from tests.routing.engine.local import Received


def cut_all_connections():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_result_in_hand_outlives_lost_connections_and_is_not_fetched_again(engine, town):
    async def slow(_: Received) -> web.Response:
        await asyncio.sleep(0.5)
        return web.json_response({"y": 1})

    town.agent.answer = slow
    tasks = [town.submit() for _ in range(20)]
    engine.claim(tasks)
    town.agent.wait_for(20)
    cut_all_connections()
    assert {row["state"] for row in town.ended(*tasks)} == {"SUCCEEDED"}
    assert len(town.agent.received) == 20


def test_connections_cut_while_idle_cost_no_task(engine, town):
    first = town.submit()
    engine.claim([first])
    town.ended(first)
    cut_all_connections()
    tasks = [town.submit() for _ in range(20)]
    engine.claim(tasks)
    assert {row["state"] for row in town.ended(*tasks)} == {"SUCCEEDED"}
    assert len(town.agent.received) == 21


def test_an_outcome_that_breaks_its_handler_ends_the_attempt(engine, town, monkeypatch):
    broken = iter([True])

    def decide_once_broken(outcome, *rest):
        if next(broken, False):
            raise ZeroDivisionError
        return decide(outcome, *rest)

    monkeypatch.setattr("routing.engine.trip.decide", decide_once_broken)
    task_id = town.submit(retry={"maxAttempts": 1})
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["state"], row["error_code"]) == ("FAILED", "UNREACHABLE")


def test_a_task_whose_preparation_breaks_each_time_is_given_up(engine, town, monkeypatch):
    monkeypatch.setattr("routing.engine.preparing.choose", lambda *_: 1 / 0)
    monkeypatch.setattr("routing.engine.loop.BROKEN_WAIT", dt.timedelta(0))
    task_id = town.submit(retry={"maxAttempts": 1})
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["state"], row["error_code"], row["attempts"]) == ("FAILED", "INTERNAL_ERROR", 0)
    document = journey(task_id, clock.now())
    assert [event["event"] for event in document["events"]] == ["RECEIVED", "WAITING", "WAITING", "FAILED"]
    assert document["summary"]["side"] == "platform"


def test_no_transaction_is_open_while_an_agent_works(engine, town):
    async def slow(_: Received) -> web.Response:
        await asyncio.sleep(1)
        return web.json_response({})

    town.agent.answer = slow
    task_id = town.submit()
    engine.claim([task_id])
    town.agent.wait_for(1)
    time.sleep(0.1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%%'"
        )
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize(
    ("held", "silent_s", "batch_s", "stuck"),
    [
        (0, 1000.0, 1000.0, False),
        (1, STUCK_S - 1, 0.0, False),
        (1, STUCK_S + 1, 0.0, True),
        (1, 0.0, STUCK_BATCH_S - 1, False),
        (1, 0.0, STUCK_BATCH_S + 1, True),
    ],
)
def test_the_watchdog_bites_only_where_work_is_held_and_nothing_moves(held, silent_s, batch_s, stuck):
    watchdog = Watchdog(SimpleNamespace(held=held), SimpleNamespace(stuck_for=lambda: batch_s))
    assert bool(watchdog.stuck(time.monotonic() + silent_s)) is stuck


def test_a_hanging_agent_leaves_room_for_the_others(engine, town):
    async def hang(_: Received) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    town.change(town.instance(), max_concurrency=50)
    town.agent.answer = hang
    quick = town.serve()
    town.add_agent("quick", quick.url)
    slow = [town.submit(target={"ability": "echo", "agentId": "worker"}, timeoutMs=20_000) for _ in range(300)]
    engine.claim(slow)
    town.agent.wait_for(40)
    began = time.monotonic()
    fast = [town.submit(target={"ability": "echo", "agentId": "quick"}) for _ in range(20)]
    engine.claim(fast)
    town.ended(*fast)
    assert time.monotonic() - began < 15  # the others hang for 20 s
    assert len(town.agent.received) == 40

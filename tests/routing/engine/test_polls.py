"""A 202 with a status address: asked until it is done, held by nobody in between."""

import asyncio
import datetime as dt

import pytest
from aiohttp import web

from common import clock
from common.json import parse
from routing.channels import polling
from routing.services import polls
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task

SECONDS = dt.timedelta(seconds=1)


def job(*bodies):
    """Answers the task with a 202, then the status address with each body in turn, the last again and again."""
    left = list(bodies)

    async def answer(received):
        if received.path != "/jobs/7":
            return web.json_response({}, status=202, headers={"Location": "/jobs/7"})
        return web.json_response(left.pop(0) if len(left) > 1 else left[0])

    return answer


def due_now(task_id):
    """As if the wait were over."""
    wait_until(lambda: task(task_id)["state"] == "RUNNING")
    rows("UPDATE routing_task SET due_at = now() WHERE id = %s RETURNING id", task_id)


def test_the_status_address_is_asked_until_it_is_done(engine, town):
    town.agent.answer = job({"status": "RUNNING"}, {"status": "SUCCEEDED", "data": {"y": 3}})
    task_id = town.submit()
    due_now(task_id)
    town.agent.wait_for(2)
    wait_until(lambda: task(task_id)["due_at"] < clock.now() + 20 * SECONDS)
    due_now(task_id)
    [row] = town.ended(task_id)
    assert (row["state"], parse(bytes(row["result"]))["data"]) == ("SUCCEEDED", {"y": 3})
    assert town.events(task_id) == ["RECEIVED", "ROUTED", "DISPATCHED", "RUNNING", "SUCCEEDED"]


def test_between_two_questions_nobody_holds_it(engine, town):
    town.agent.answer = job({"status": "RUNNING"})
    task_id = town.submit()
    wait_until(lambda: task(task_id)["state"] == "RUNNING")
    [attempt] = rows("SELECT * FROM routing_attempt WHERE task_id = %s", task_id)
    due = task(task_id)["due_at"] - attempt["received_at"]
    assert (attempt["worker"], engine.held, due) == (None, 0, 2 * SECONDS)


def test_the_question_is_signed_and_another_process_does_not_ask_it_too(engine, town, monkeypatch):
    town.agent.answer = job({"status": "RUNNING"})
    task_id = town.submit()
    due_now(task_id)
    asked = town.agent.wait_for(2)[1]
    assert "Signature" in asked.headers
    assert polls.claim(clock.now(), 10) == []


@pytest.mark.parametrize("location", ["http://10.1.2.3/jobs/7", "http://169.254.169.254/latest"])
def test_an_address_inside_is_not_asked(engine, town, location):
    async def answer(_):
        return web.json_response({"statusUrl": location}, status=202)

    town.agent.answer = answer
    task_id = town.submit()
    due_now(task_id)
    [row] = town.ended(task_id)
    assert (row["state"], row["error_code"]) == ("FAILED", "BAD_RESPONSE")


def test_an_agent_that_lost_it_is_given_it_again(engine, town):
    async def answer(received):
        if received.path == "/jobs/7":
            return web.Response(status=404)
        if len(town.agent.received) > 1:
            return web.json_response({"y": 9})
        return web.json_response({"statusUrl": "/jobs/7"}, status=202)

    town.agent.answer = answer
    task_id = town.submit(retry={"backoffMs": 0})
    due_now(task_id)
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"]) == ("SUCCEEDED", 2)


def test_an_instance_whose_status_addresses_hang_delays_no_other(engine, town, monkeypatch):
    monkeypatch.setattr(polling, "TOTAL_TIMEOUT_S", 600.0)

    async def hangs(received):
        if received.path != "/":
            await asyncio.sleep(600)
        return web.json_response({"statusUrl": f"/jobs/{len(town.agent.received)}"}, status=202)

    town.agent.answer = hangs
    stuck = [town.submit() for _ in range(40)]
    wait_until(lambda: all(task(one)["state"] == "RUNNING" for one in stuck))
    rows("UPDATE routing_task SET due_at = now() WHERE id = ANY(%s) RETURNING id", stuck)
    town.agent.wait_for(len(stuck) + 1)
    other = town.serve(job({"status": "SUCCEEDED", "data": {"y": 5}}))
    town.remove(town.instance())
    town.add_agent("second", other.url)
    task_id = town.submit()
    due_now(task_id)
    [row] = town.ended(task_id)
    assert (row["state"], town.events(stuck[0])[-1]) == ("SUCCEEDED", "RUNNING")

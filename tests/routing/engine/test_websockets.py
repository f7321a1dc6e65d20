"""The websocket channel's own: the handshake, what is not understood, and a connection that is lost."""

from typing import Any

import pytest

from common.json import parse
from tests.routing.engine.drivers import Websocket
from tests.routing.services.world import rows

ONCE = {"maxAttempts": 1}


@pytest.fixture
def agent(engine: Any, town: Any) -> Any:
    driver = Websocket(town)
    yield driver
    driver.stop()


def ended(town, task_id):
    """How the task's only attempt ended."""
    town.ended(task_id)
    [row] = rows("SELECT * FROM routing_attempt WHERE task_id = %s", task_id)
    return row["code"], row["certainty"]


def test_the_handshake_is_signed_and_names_the_task(agent, town):
    task_id = town.submit()
    body = parse(agent.next())
    headers = agent.server.received[0].headers
    assert (headers["Reach-Task-Id"], "Signature" in headers) == (str(task_id), True)
    agent.result(body, status="SUCCEEDED", data={"y": 1})
    assert town.ended(task_id)[0]["state"] == "SUCCEEDED"


def test_a_connection_that_closes_before_the_result_may_have_run(agent, town):
    task_id = town.submit(retry=ONCE)
    body = parse(agent.next())
    agent.server.do(agent.server.sockets[body["attemptKey"]].close())
    assert ended(town, task_id) == ("UNREACHABLE", "MAYBE_RAN")


def test_where_nothing_listens_it_was_not_sent(agent, town):
    town.point_to("ws://127.0.0.1:9/")
    task_id = town.submit(retry=ONCE)
    assert ended(town, task_id) == ("UNREACHABLE", "NOT_SENT")


def test_an_address_inside_is_not_called(agent, town):
    town.point_to("ws://10.1.2.3/")
    task_id = town.submit(retry=ONCE)
    assert ended(town, task_id) == ("UNREACHABLE", "NOT_SENT")


@pytest.mark.parametrize(("status", "code"), [(200, "BAD_RESPONSE"), (302, "BAD_RESPONSE"), (500, "INTERNAL_ERROR")])
def test_a_handshake_that_is_answered_otherwise_sends_nothing(agent, town, status, code):
    agent.refuse(status, {"Location": town.agent.url})
    task_id = town.submit(retry=ONCE)
    assert ended(town, task_id) == (code, "NOT_SENT")
    assert town.agent.received == []


def test_a_result_without_data_has_its_chunks(agent, town):
    task_id = town.submit()
    body = parse(agent.next())
    for part in ("a", "b"):
        agent.chunk(body, part)
    agent.result(body, status="SUCCEEDED")
    assert parse(bytes(town.ended(task_id)[0]["result"]))["data"] == ["a", "b"]


def test_a_message_that_makes_no_sense_is_a_bad_response_and_another_attempts_is_passed_over(agent, town):
    task_id = town.submit(retry=ONCE)
    body = parse(agent.next())
    socket = agent.server.sockets[body["attemptKey"]]
    agent.server.do(socket.send_str('{"type": "result", "attemptKey": "other", "status": "SUCCEEDED"}'))
    agent.server.say(body["attemptKey"], type="chunk", data=1)
    agent.server.do(socket.send_str("nonsense"))
    assert ended(town, task_id) == ("BAD_RESPONSE", "RAN")
    [row] = rows("SELECT error_details FROM routing_task WHERE id = %s", task_id)
    assert parse(row["error_details"].encode()) == {"partial": [1]}

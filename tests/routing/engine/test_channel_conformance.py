"""What every channel does alike: each test runs once a channel. A new channel is one more driver in `drivers`."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from common import clock
from common.errors import StateConflict
from common.json import parse
from routing.services.cancel import cancel
from routing.services.sweep import sweep
from tests.routing.engine.channel_table import has, markdown
from tests.routing.engine.drivers import DRIVERS
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task


def needs(behaviour: str) -> Any:
    """The test is for channels that have this; the table says which those are."""

    def mark(test: Any) -> Any:
        test.needs = behaviour
        return test

    return mark


def pytest_generate_tests(metafunc: Any) -> None:
    if "agent" in metafunc.fixturenames:
        behaviour = getattr(metafunc.function, "needs", None)
        fit = [
            one for one in DRIVERS if behaviour is None or (has(one.name, behaviour) and behaviour not in one.elsewhere)
        ]
        waits = behaviour == "late result"  # for the end of a real attempt, where a worker holds it
        marked = [pytest.param(one, marks=[pytest.mark.slow] if waits and one.is_held else []) for one in fit]
        metafunc.parametrize("agent", marked, ids=[one.name for one in fit], indirect=True)


@pytest.fixture
def agent(request: Any, settings: Any, engine: Any, town: Any) -> Any:
    """How the agent gets its tasks."""
    settings.REACH_FUNCTIONS = {"echo": "tests.routing.engine.drivers:work"}
    driver = request.param(town)
    yield driver
    driver.stop()


def data_of(row: dict[str, Any]) -> Any:
    return parse(bytes(row["result"]))["data"]


def test_the_request_is_the_callers_with_keys_of_its_own_and_the_attempt_is_on_record(agent: Any, town: Any):
    task_id = town.submit({"n": 9007199254740993, "t": "😀"}, correlationId="o-1", metadata={"userId": "u"})
    raw = agent.next()
    body = parse(raw)
    assert b'"payload":{"n":9007199254740993,"t":"\xf0\x9f\x98\x80"}' in raw
    assert (body["taskId"], body["attempt"], body["idempotencyKey"]) == (str(task_id), 1, "o-1")
    assert (body["metadata"], body["messageType"]) == ({"userId": "u"}, "task.request")
    assert body["resultToken"]
    assert body["resultUrl"].endswith(f"/v1/tasks/{task_id}/result")
    [row] = rows("SELECT * FROM routing_attempt WHERE task_id = %s", task_id)
    assert (row["channel"], row["worker"] is not None, row["certainty"]) == (agent.name, agent.is_held, "MAYBE_RAN")
    assert parse(row["decision"].encode())["chosen"] == {"agentId": "worker", "instanceId": "i1"}
    assert task(task_id)["state"] == "RUNNING"
    agent.result(body, status="SUCCEEDED", data={})
    town.ended(task_id)


@needs("duplicate result")
def test_a_result_ends_it_and_told_twice_changes_nothing(agent: Any, town: Any):
    task_id = town.submit()
    body = parse(agent.next())
    agent.result(body, status="SUCCEEDED", data={"y": 1})
    [row] = town.ended(task_id)
    agent.result(body, status="SUCCEEDED", data={"y": 2})
    assert (row["state"], data_of(task(task_id))) == ("SUCCEEDED", {"y": 1})


def test_a_failure_keeps_the_agents_code(agent: Any, town: Any):
    task_id = town.submit()
    agent.result(parse(agent.next()), status="FAILED", error={"code": "CARD", "message": "declined"})
    [row] = town.ended(task_id)
    assert (row["error_code"], parse(row["error_details"].encode())) == ("AGENT_FAILED", {"agentCode": "CARD"})


def test_a_retry_has_a_new_attempt_key_the_same_idempotency_key_and_the_last_word(agent: Any, town: Any):
    task_id = town.submit(retry={"backoffMs": 0})
    first = parse(agent.next())
    agent.result(first, status="FAILED", error={"code": "BUSY", "message": "later", "retryable": True})
    second = parse(agent.next())
    assert second["attempt"] == 2
    assert (first["attemptKey"] != second["attemptKey"], first["idempotencyKey"]) == (True, second["idempotencyKey"])
    agent.result(second, status="SUCCEEDED", data={"y": 2})
    [row] = town.ended(task_id)
    assert (row["state"], data_of(row)) == ("SUCCEEDED", {"y": 2})


@needs("refusal")
def test_a_refusal_is_not_retried(agent: Any, town: Any):
    answers_with_a_status = has(agent.name, "retry-after")
    if answers_with_a_status:
        agent.refuse(400)
    task_id = town.submit()
    if not answers_with_a_status:
        error = {"code": "REJECTED", "message": "no", "retryable": False}
        agent.result(parse(agent.next()), status="FAILED", error=error)
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"]) == ("FAILED", 1)


@needs("retry-after")
def test_an_agent_that_is_busy_is_asked_again_when_it_says(agent: Any, town: Any):
    agent.refuse(503, {"Retry-After": "3600"})
    task_id = town.submit(ttlMs=86_400_000, timeoutBudgetMs=86_400_000)
    wait_until(lambda: task(task_id)["state"] == "RETRY_WAIT")
    assert task(task_id)["due_at"] > clock.now() + dt.timedelta(minutes=50)
    cancel(task_id, "test", clock.now())


def test_progress_is_shown(agent: Any, town: Any):
    task_id = town.submit()
    body = parse(agent.next())
    agent.progress(body, percent=40, message="half")
    wait_until(lambda: task(task_id)["progress"])
    assert parse(task(task_id)["progress"].encode())["percent"] == 40
    agent.result(body, status="SUCCEEDED", data={})
    town.ended(task_id)


@needs("chunks")
def test_chunks_are_relayed_as_they_come(agent: Any, town: Any):
    task_id = town.submit()
    body = parse(agent.next())
    agent.chunk(body, {"part": 1})
    wait_until(lambda: "CHUNK" in town.events(task_id))
    agent.result(body, status="SUCCEEDED", data={"y": 1})
    [row] = town.ended(task_id)
    assert data_of(row) == {"y": 1}


def test_after_a_cancel_the_agent_is_told_or_refused(agent: Any, town: Any):
    task_id = town.submit()
    body = parse(agent.next())
    cancel(task_id, "test", clock.now())
    if agent.name == "websocket":
        wait_until(lambda: agent.server.said == [{"type": "cancel", "attemptKey": body["attemptKey"]}])
    elif agent.name == "function":
        wait_until(lambda: agent.is_over(body))
    else:
        with pytest.raises(StateConflict):
            agent.result(body, status="SUCCEEDED", data={})
    assert task(task_id)["state"] == "CANCELLED"


@needs("late result")
def test_an_attempt_has_its_time_and_a_later_result_is_kept(agent: Any, town: Any):
    task_id = town.submit(timeoutMs=3000, retry={"maxAttempts": 1})
    body = parse(agent.next())
    if not agent.is_held:
        sweep(clock.now() + dt.timedelta(seconds=4))
    [row] = town.ended(task_id)
    assert (row["state"], row["error_code"]) == ("TIMEOUT", "TIMEOUT")
    try:
        agent.late(body, status="SUCCEEDED", data={"y": 9})
    except StateConflict:
        pass
    wait_until(lambda: task(task_id)["late"])


def test_the_table_in_the_documentation_is_this_one():
    text = (Path(django_settings.BASE_DIR) / "docs" / "channels.md").read_text("utf-8")
    assert markdown() in text

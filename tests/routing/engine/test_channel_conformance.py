"""What every channel does alike: each test runs once a channel. A new channel is one more driver here."""

import uuid
from typing import Any

import pytest
from aiohttp import web
from django.db import transaction

from common import clock
from common.errors import StateConflict
from common.json import dumps, parse
from registry.models import Agent
from registry.services.changes import touch
from routing.services import lease, report
from routing.services.cancel import cancel
from routing.services.lease import Fetcher
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task


class Http:
    """The agent is sent the task and answers 202."""

    name = "http"

    def __init__(self, town: Any):
        async def answer(_: Any) -> web.Response:
            return web.json_response({}, status=202)

        self._server, self._seen = town.agent, 0
        self._server.answer = answer

    def next(self) -> bytes:
        """The next task request that reaches the agent."""
        self._seen += 1
        body: bytes = self._server.wait_for(self._seen)[self._seen - 1].body
        wait_until(lambda: task(uuid.UUID(parse(body)["taskId"]))["state"] != "DISPATCHED")
        return body


class Pull:
    """The agent fetches the task and acknowledges it."""

    name = "pull"

    def __init__(self, town: Any):
        with transaction.atomic():
            Agent.objects.filter(namespace=town.namespace).update(manifest={"spec": {"channels": ["pull"]}})
            touch(town.namespace)
        self._fetcher = Fetcher(town.namespace, "worker", "i1")

    def next(self) -> bytes:
        found: list[lease.Leased] = []

        def fetched() -> bool:
            found.extend(lease.take(self._fetcher, 1, clock.now()))
            return bool(found)

        wait_until(fetched, 20)
        report.receipt(found[0].task_id, found[0].attempt_key, b"{}", clock.now())
        return found[0].body


@pytest.fixture(params=[Http, Pull], ids=lambda driver: driver.name)
def agent(request: Any, engine: Any, town: Any) -> Any:
    """How the agent gets its tasks."""
    return request.param(town)


def tell(body: dict[str, Any], **result: Any) -> None:
    raw = dumps({"attemptKey": body["attemptKey"], **result})
    report.result(uuid.UUID(body["taskId"]), uuid.UUID(body["attemptKey"]), raw, clock.now())


def test_the_request_is_the_callers_bytes_with_keys_of_its_own(agent, town):
    task_id = town.submit({"n": 9007199254740993, "t": "😀"}, correlationId="o-1", metadata={"userId": "u"})
    raw = agent.next()
    body = parse(raw)
    assert b'"payload":{"n":9007199254740993,"t":"\xf0\x9f\x98\x80"}' in raw
    assert (body["taskId"], body["attempt"], body["idempotencyKey"]) == (str(task_id), 1, "o-1")
    assert (body["metadata"], body["messageType"]) == ({"userId": "u"}, "task.request")
    assert body["resultToken"]
    assert body["resultUrl"].endswith(f"/v1/tasks/{task_id}/result")


def test_the_attempt_is_on_record_with_channel_and_decision_and_nobody_holds_it(agent, town):
    task_id = town.submit()
    agent.next()
    [row] = rows("SELECT * FROM routing_attempt WHERE task_id = %s", task_id)
    assert (row["channel"], row["worker"], row["certainty"]) == (agent.name, None, "MAYBE_RAN")
    assert parse(row["decision"].encode())["chosen"] == {"agentId": "worker", "instanceId": "i1"}
    assert task(task_id)["state"] == "RUNNING"


def test_a_result_ends_it_and_told_twice_changes_nothing(agent, town):
    task_id = town.submit()
    body = parse(agent.next())
    for data in ({"y": 1}, {"y": 2}):
        tell(body, status="SUCCEEDED", data=data)
    [row] = town.ended(task_id)
    assert (row["state"], parse(bytes(row["result"]))["data"]) == ("SUCCEEDED", {"y": 1})


def test_a_failure_keeps_the_agents_code(agent, town):
    task_id = town.submit()
    tell(parse(agent.next()), status="FAILED", error={"code": "CARD", "message": "declined"})
    [row] = town.ended(task_id)
    assert (row["error_code"], parse(row["error_details"].encode())) == ("AGENT_FAILED", {"agentCode": "CARD"})


def test_a_retry_has_a_new_attempt_key_and_the_same_idempotency_key(agent, town):
    task_id = town.submit(retry={"backoffMs": 0})
    first = parse(agent.next())
    tell(first, status="FAILED", error={"code": "BUSY", "message": "later", "retryable": True})
    second = parse(agent.next())
    assert second["attempt"] == 2
    assert (first["attemptKey"] != second["attemptKey"], first["idempotencyKey"]) == (True, second["idempotencyKey"])
    tell(first, status="SUCCEEDED", data={})  # it has had its say
    assert task(task_id)["state"] == "RUNNING"
    tell(second, status="SUCCEEDED", data={})
    assert town.ended(task_id)[0]["state"] == "SUCCEEDED"


def test_progress_is_shown(agent, town):
    task_id = town.submit()
    body = parse(agent.next())
    report.progress(task_id, uuid.UUID(body["attemptKey"]), b'{"percent": 40, "message": "half"}', clock.now())
    assert parse(task(task_id)["progress"].encode())["percent"] == 40


def test_after_a_cancel_the_agent_is_refused(agent, town):
    task_id = town.submit()
    body = parse(agent.next())
    cancel(task_id, "test", clock.now())
    with pytest.raises(StateConflict):
        tell(body, status="SUCCEEDED", data={})
    assert task(task_id)["state"] == "CANCELLED"

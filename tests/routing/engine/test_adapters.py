"""An agent that speaks something else, called through its adapter."""

import json

from aiohttp import web
from django.db import transaction

from common.json import parse
from common.secrets import encrypt
from registry.models import Agent, AgentSecret
from registry.services.changes import touch
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task


def adapt(town, *, secret=None, **adapter):
    with transaction.atomic():
        agent = Agent.objects.get(namespace=town.namespace)
        agent.manifest = {"spec": {"adapter": adapter}}
        agent.save()
        if secret:
            AgentSecret.objects.create(agent=agent, name="key", value=encrypt(secret))
        touch(town.namespace)


HEADERS = {"Authorization": "Bearer ${secret:key}"}


def test_request_headers_and_answer_are_the_agents_own(engine, town):
    async def answer(_):
        return web.json_response({"jsonrpc": "2.0", "id": "x", "result": {"y": 7}})

    town.agent.answer = answer
    adapt(town, preset="jsonrpc", headers=HEADERS, secret="s3cret")
    [row] = town.ended(town.submit({"x": 5}))
    [sent] = town.agent.received
    assert (parse(sent.body)["method"], parse(sent.body)["params"]) == ("echo", {"x": 5})
    assert sent.headers["Authorization"] == "Bearer s3cret"
    assert (row["state"], parse(bytes(row["result"]))["data"]) == ("SUCCEEDED", {"y": 7})


def test_an_answer_that_does_not_fit_is_a_bad_response(engine, town):
    adapt(town, preset="langserve")
    [row] = town.ended(town.submit())
    assert (row["state"], row["error_code"]) == ("FAILED", "BAD_RESPONSE")


def test_without_its_secret_nothing_is_sent(engine, town):
    adapt(town, headers=HEADERS)
    [row] = town.ended(town.submit())
    assert (row["error_code"], town.agent.received) == ("REJECTED", [])
    assert "secret key" in row["error_message"]


def streaming(*values, end=b"data: [DONE]\n\n"):
    """Answers with these as server-sent events."""
    body = b"".join(b"data: %s\n\n" % json.dumps(value).encode() for value in values) + end

    async def answer(_):
        return web.Response(body=body, headers={"Content-Type": "text/event-stream"})

    return answer


def relayed(task_id):
    found = rows("SELECT detail FROM routing_event WHERE task_id = %s AND event = 'CHUNK' ORDER BY seq", task_id)
    return [chunk for row in found for chunk in parse(row["detail"].encode())["chunks"]]


def test_a_stream_is_relayed_in_the_form_of_the_contract_and_its_result_is_what_was_streamed(engine, town):
    pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("Hel", "lo")]
    town.agent.answer = streaming(*pieces)
    adapt(town, preset="openai-chat")
    [row] = town.ended(town.submit())
    assert relayed(row["id"]) == [{"text": "Hel"}, {"text": "lo"}]
    assert parse(bytes(row["result"]))["data"] == {"text": "Hello"}


def test_a_stream_in_its_own_form_that_ends_too_soon_is_a_failure_that_keeps_its_part(engine, town):
    town.agent.answer = streaming({"out": "a"}, {"out": "b"})
    adapt(town, response={"status": "state", "data": "out"})
    [row] = town.ended(town.submit())
    assert (row["state"], row["error_code"]) == ("FAILED", "BAD_RESPONSE")
    assert [part["data"] for part in parse(row["error_details"].encode())["partial"]] == ["a", "b"]


def test_a_workflow_is_asked_for_through_its_preset(engine, town):
    states = [{"status": "running"}, {"status": "succeeded", "outputs": {"y": 4}}]

    async def answer(received):
        if received.path == "/runs/7":
            return web.json_response(states.pop(0) if len(states) > 1 else states[0])
        return web.json_response({}, status=202, headers={"Location": "/runs/7"})

    town.agent.answer = answer
    adapt(town, preset="dify")
    task_id = town.submit()
    wait_until(lambda: task(task_id)["state"] == "RUNNING")
    for asked in (2, 3):
        rows("UPDATE routing_task SET due_at = now() WHERE id = %s RETURNING id", task_id)
        town.agent.wait_for(asked)
        wait_until(lambda: task(task_id)["outcome"] or _is_later(task_id))
    [row] = town.ended(task_id)
    assert parse(bytes(row["result"]))["data"] == {"y": 4}


def _is_later(task_id):
    """Asked, and to be asked again: the wait is shorter than a claim's."""
    return rows("SELECT due_at < now() + interval '20 s' AS found FROM routing_task WHERE id = %s", task_id)[0]["found"]

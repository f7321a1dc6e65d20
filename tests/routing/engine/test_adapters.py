"""An agent that speaks something else, called through its adapter."""

from aiohttp import web
from django.db import transaction

from common.json import parse
from common.secrets import encrypt
from registry.models import Agent, AgentSecret
from registry.services.changes import touch


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

"""The function channel's own: which function is called, what it may raise, and that threads are bounded."""

import asyncio
import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from common import clock
from common.errors import ManifestInvalid
from common.json import parse
from registry.manifest import Rules, check
from routing.channels import function
from tests.routing.engine.drivers import Function

HERE = "tests.routing.engine.test_functions"


def doubled(request: dict[str, Any]) -> Any:
    return {"n": request["payload"]["x"] * 2}


async def later(request: dict[str, Any]) -> Any:
    return {"status": "SUCCEEDED", "data": request["payload"]["x"]}


def broken(request: dict[str, Any]) -> Any:
    raise KeyError("no such thing")


@pytest.fixture
def ends(settings: Any, engine: Any, town: Any) -> Any:
    """ends(functions) is the row of a task that the town's agent got, a function of these."""
    Function(town)

    def submitted(functions: dict[str, str]) -> dict[str, Any]:
        settings.REACH_FUNCTIONS = functions
        return town.ended(town.submit(retry={"maxAttempts": 1}))[0]

    return submitted


@pytest.mark.parametrize(
    ("functions", "data"),
    [
        ({"echo": f"{HERE}:doubled"}, {"n": 2}),
        ({"echo": f"{HERE}:broken", "worker.echo": f"{HERE}:doubled"}, {"n": 2}),
        ({"echo": f"{HERE}:later"}, 1),
    ],
)
def test_what_it_returns_is_the_result(ends, functions, data):
    row = ends(functions)
    assert (row["state"], parse(bytes(row["result"]))["data"]) == ("SUCCEEDED", data)


@pytest.mark.parametrize(
    ("functions", "code", "says"),
    [
        ({"echo": f"{HERE}:broken"}, "INTERNAL_ERROR", "KeyError"),
        ({"echo": f"{HERE}:missing"}, "REJECTED", "cannot be imported"),
        ({}, "REJECTED", "worker.echo"),
    ],
)
def test_what_goes_wrong_is_said(ends, functions, code, says):
    row = ends(functions)
    assert row["error_code"] == code
    assert says in row["error_message"]


def test_where_all_threads_are_in_use_it_is_not_called(settings):
    settings.REACH_FUNCTIONS = {"echo": f"{HERE}:doubled"}
    channel = function.FunctionChannel(None)
    channel._free = 0
    deadline = clock.now() + dt.timedelta(minutes=1)
    dispatch = SimpleNamespace(deadline_at=deadline, agent_id="worker", capability="echo")
    outcome = asyncio.run(channel.send(SimpleNamespace(dispatch=dispatch)))
    assert (outcome.code, outcome.certainty, outcome.retry_after_ms) == ("SERVICE_UNAVAILABLE", "NOT_SENT", 1000)


def test_a_manifest_needs_a_function_for_each_capability():
    document = {
        "apiVersion": "agent-reach/v1", "kind": "AgentManifest", "metadata": {"name": "a", "version": "1"},
        "spec": {"channels": ["function"], "capabilities": [{"name": "echo"}, {"name": "sum"}]},
    }  # fmt: skip
    with pytest.raises(ManifestInvalid) as refused:
        check(document, "a", strict=False, rules=Rules(lambda url, schemes: None, functions={"a.echo"}))
    assert [one["pointer"] for one in refused.value.errors] == ["/spec/capabilities/1/name"]

"""Fetching tasks by API: who may, what is refused, and what a poll is given."""

from typing import Any

import pytest

from common.clock import now
from common.json import dumps
from tests.registry.calls import errors_of
from tests.routing.api.conftest import MANIFEST, Platform, problem

PATH = "/v1/agents/worker/lease"


@pytest.fixture
def pulling(platform: Platform) -> Platform:
    """The agent lists the channel pull and has registered `i-1`."""
    from registry.services import instances, manifests

    manifest = {**MANIFEST, "spec": {**MANIFEST["spec"], "channels": ["pull"]}}  # type: ignore[dict-item]
    by: dict[str, Any] = {"actor": "test", "now": now()}
    manifests.put(platform.namespace, "worker", dumps(manifest), "application/json", strict=False, **by)
    instances.put(platform.namespace, "worker", "i-1", {}, **by)
    return platform


def test_a_poll_is_handed_to_the_loop_with_what_was_asked(pulling: Platform) -> None:
    answer = pulling.worker("POST", PATH + "?wait=3", {"instanceId": "i-1", "max": 4})
    poll = answer.hand_off
    assert (answer.status_code, answer.json()) == (200, {"tasks": []})
    assert (poll.fetcher.key, poll.most, poll.seconds) == ((pulling.namespace, "worker", "i-1"), 4, 3)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/instanceId"),
        ({"instanceId": 1}, "/instanceId"),
        ({"instanceId": "i-1", "max": 0}, "/max"),
        ({"instanceId": "i-1", "max": 101}, "/max"),
        ({"instanceId": "i-1", "max": "4"}, "/max"),
        ({"instanceId": "i-1", "maximum": 4}, "/maximum"),
    ],
)
def test_a_wrong_field_is_named(pulling: Platform, body: dict, pointer: str) -> None:
    answer = pulling.worker("POST", PATH, body)
    problem(answer, 422, "INVALID")
    assert list(errors_of(answer)) == [pointer]


@pytest.mark.parametrize("wait", ["-1", "31", "abc", "1.5", "²", ""])
def test_a_wrong_wait_is_named(pulling: Platform, wait: str) -> None:
    assert (
        "wait"
        in problem(pulling.worker("POST", f"{PATH}?wait={wait}", {"instanceId": "i-1"}), 400, "BAD_REQUEST")["detail"]
    )


def test_an_unknown_instance_or_agent_is_not_found(pulling: Platform) -> None:
    problem(pulling.worker("POST", PATH, {"instanceId": "i-2"}), 404, "NOT_FOUND")
    problem(pulling.worker("POST", "/v1/agents/other/lease", {"instanceId": "i-1"}), 404, "NOT_FOUND")
    operators = f"/v1/agents/other/lease?namespace={pulling.namespace}"
    problem(pulling.operator("POST", operators, {"instanceId": "i-1"}), 404, "NOT_FOUND")


def test_an_agent_that_is_only_pushed_to_fetches_nothing(platform: Platform) -> None:
    problem(platform.worker("POST", PATH, {"instanceId": "default"}), 409, "STATE_CONFLICT")


def test_clients_may_not_fetch(pulling: Platform) -> None:
    problem(pulling.shop("POST", PATH, {"instanceId": "i-1"}), 403, "FORBIDDEN")

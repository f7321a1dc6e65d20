"""From a request to exactly one durable task, or to a clear refusal."""

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from common import clock
from common.errors import (
    AbilityNotAllowed,
    AbilityNotRegistered,
    CallbackUrlRefused,
    Forbidden,
    IdempotencyMismatch,
    Invalid,
    PayloadInvalid,
    ReachError,
)
from registry.models import Namespace
from registry.principal import Principal
from routing import snapshot
from routing.requests import parse
from routing.services import accept as accepting
from routing.services.gathered import Gathered
from routing.snapshot import Snapshot
from routing.trip import Accepted
from tests.routing.services.world import World, events, rows, task


def raw(world: World, body: bytes, client: str = "shop") -> Accepted:
    return accepting.accept(world.principal(client), world.namespace, parse(body), traceparent=None, now=clock.now())


def test_fifty_equal_requests_at_once_make_one_task(world: World) -> None:
    barrier = threading.Barrier(50)

    def submit(_: int) -> Accepted:
        try:
            barrier.wait()
            return world.accept(correlationId="race-1")
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(submit, range(50)))
    assert len({one.task_id for one in answers}) == 1
    assert sum(not one.replayed for one in answers) == 1
    assert len(rows("SELECT id FROM routing_task WHERE namespace = %s", world.namespace)) == 1
    assert world.nudged == [answers[0].task_id]


@pytest.mark.parametrize(
    "body",
    [
        b'{"correlationId":"k1","payload":{"x":1.0},"target":{"ability":"echo"}}',
        b' {"target" : {"ability":"echo"}, "payload": {"x": 1}, "correlationId": "k1"}',
    ],
)
def test_an_equal_request_by_value_is_a_repetition(world: World, body: bytes) -> None:
    first = raw(world, b'{"target":{"ability":"echo"},"payload":{"x":1},"correlationId":"k1"}')
    again = raw(world, body)
    assert (again.task_id, again.replayed) == (first.task_id, True)


@pytest.mark.parametrize("change", [{"payload": {"x": 2}}, {"sessionId": "s"}, {"payload": {"x": 2**53 + 1}}])
def test_another_request_with_the_same_correlation_id_is_refused(world: World, change: dict[str, Any]) -> None:
    first = world.accept(correlationId="k1")
    with pytest.raises(IdempotencyMismatch):
        world.accept(correlationId="k1", **change)
    assert events(first.task_id) == ["RECEIVED"]


def test_a_repetition_with_a_token_is_recognised_though_the_token_is_stored_encrypted(world: World) -> None:
    callback = {"type": "http", "url": "https://shop.example/cb", "authToken": "s3cret"}
    first = world.accept(correlationId="k1", callback=callback)
    same = raw(world, b' {"payload":{"x":1},"correlationId":"k1","target":{"ability":"echo"},"callback":{"authToken":'
                      b'"s3cret","url":"https://shop.example/cb","type":"http"}}')  # fmt: skip
    assert same.task_id == first.task_id
    with pytest.raises(IdempotencyMismatch):
        world.accept(correlationId="k1", callback={**callback, "authToken": "other"})


def test_callers_do_not_share_correlation_ids(world: World) -> None:
    assert world.accept(correlationId="o1").task_id != world.accept(correlationId="o1", client="other").task_id


def test_a_repetition_tells_the_present_state(world: World) -> None:
    sent = world.running(correlationId="k1")
    world.settle(sent)
    assert world.accept(correlationId="k1").state == "SUCCEEDED"


def test_a_repetition_is_answered_after_the_ability_has_gone(world: World) -> None:
    first = world.accept(correlationId="k1")
    world.abilities.clear()
    assert world.accept(correlationId="k1").task_id == first.task_id


@pytest.mark.parametrize(
    ("fields", "error", "pointer"),
    [
        ({"target": {"ability": "nope"}}, AbilityNotRegistered, "/target/ability"),
        ({"target": {"ability": "echo", "agentId": "nobody"}}, AbilityNotRegistered, "/target/agentId"),
        ({"payload": {"x": "one"}}, PayloadInvalid, "/payload/x"),
        ({"callback": {"type": "http", "url": "http://10.0.0.1/"}}, CallbackUrlRefused, "/callback/url"),
        ({"parentTaskId": "7d444840-9dc0-11d1-b245-5ffdce74fad2"}, Invalid, "/parentTaskId"),
    ],
)
def test_what_cannot_become_a_task_is_refused_with_a_pointer(
    world: World, fields: dict[str, Any], error: type[ReachError], pointer: str
) -> None:
    with pytest.raises(error) as refusal:
        world.accept(**fields)
    assert refusal.value.errors[0]["pointer"] == pointer


def test_an_ability_outside_the_clients_list_is_not_allowed(world: World) -> None:
    principal = replace(world.principal(), abilities=("ticket.*",))
    with pytest.raises(AbilityNotAllowed):
        accepting.accept(principal, world.namespace, world.request(), traceparent=None, now=clock.now())


def test_a_substitute_is_no_way_to_an_ability_outside_the_clients_list(world: World) -> None:
    principal = replace(world.principal(), abilities=("echo",))
    request = world.request(fallback={"substitutes": ["echo", "secret"]})
    with pytest.raises(AbilityNotAllowed) as refused:
        accepting.accept(principal, world.namespace, request, traceparent=None, now=clock.now())
    assert refused.value.errors[0]["pointer"] == "/fallback/substitutes/1"


def test_a_capability_that_keeps_state_needs_a_session(world: World) -> None:
    [candidate] = world.abilities["echo"].candidates
    stateful = replace(candidate, capability=replace(candidate.capability, stateful=True))
    world.abilities["echo"] = replace(world.abilities["echo"], candidates=(stateful,))
    with pytest.raises(Invalid):
        world.accept()
    assert world.accept(sessionId="s1")


def test_one_of_several_schemas_is_enough(world: World) -> None:
    [candidate] = world.abilities["echo"].candidates
    free = replace(candidate, capability=replace(candidate.capability, input=None))
    world.abilities["echo"] = replace(world.abilities["echo"], candidates=(candidate, free))
    assert world.accept(payload={"x": "one"})


def test_times_follow_from_timeout_attempts_and_backoffs(world: World) -> None:
    now = clock.now()
    row = task(world.accept(now=now, timeoutMs=10_000).task_id)
    assert row["expires_at"] - now == dt.timedelta(milliseconds=3 * 10_000 + 3000 + 2 * 500 + 60_000)
    assert row["deadline_at"] == row["budget_at"] == row["expires_at"]


def test_a_task_for_later_is_due_then_and_lives_from_then(world: World) -> None:
    now = clock.now()
    start = clock.parse_time("2099-01-01T00:00:00Z")
    row = task(world.accept(now=now, notBefore="2099-01-01T00:00:00Z", ttlMs=5000).task_id)
    assert (row["due_at"], row["expires_at"]) == (start, start + dt.timedelta(seconds=5))
    assert world.nudged == []


def test_a_request_may_only_lower_the_attempts(world: World) -> None:
    few = world.accept(retry={"maxAttempts": 2})
    many = world.accept(retry={"maxAttempts": 9})
    assert [task(one.task_id)["max_attempts"] for one in (few, many)] == [2, 3]


def test_a_child_takes_path_trace_and_deadline_from_its_parent(world: World) -> None:
    sent = world.running(timeoutBudgetMs=20_000)
    agent = Principal("agent", world.namespace, None, "worker", frozenset({"tasks:write"}))
    request = world.request(parentTaskId=str(sent.task.task_id))
    child = accepting.accept(agent, world.namespace, request, traceparent=None, now=clock.now())
    row, parent = task(child.task_id), task(sent.task.task_id)
    assert (row["call_path"], row["trace_id"]) == ('["worker"]', parent["trace_id"])
    assert row["deadline_at"] == parent["deadline_at"]


def test_an_agent_may_not_submit_for_another_agents_task(world: World) -> None:
    sent = world.running()
    other = Principal("agent", world.namespace, None, "other", frozenset({"tasks:write"}))
    for fields in ({}, {"parentTaskId": str(sent.task.task_id)}):
        with pytest.raises(Forbidden):
            accepting.accept(other, world.namespace, world.request(**fields), traceparent=None, now=clock.now())


def test_a_batch_answers_each_item_by_itself(world: World) -> None:
    items = [world.request(correlationId="a"), Invalid(detail="bad"), world.request(correlationId="a"),
             world.request(payload={"x": "one"}), world.request(correlationId="b")]  # fmt: skip
    answers = accepting.accept_many(world.principal(), world.namespace, items, traceparent=None, now=clock.now())
    assert [type(one).__name__ for one in answers] == ["Accepted", "Invalid", "Accepted", "PayloadInvalid", "Accepted"]
    assert answers[0].task_id == answers[2].task_id != answers[4].task_id  # type: ignore[union-attr]
    assert answers[2].replayed  # type: ignore[union-attr]


def test_a_newer_registry_is_read_before_the_task_is_accepted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Namespace.objects.filter(pk=world.namespace).update(version=7)
    asked: list[int] = []
    real = snapshot.at_least

    def reload(namespace: str, version: int) -> Snapshot:
        asked.append(version)
        return real(namespace, version)

    monkeypatch.setattr(snapshot, "at_least", reload)
    assert world.accept()
    assert asked == [7]


def test_a_registry_that_never_rests_keeps_nobody_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = accepting._insert_all

    def after_another_change(given: list[tuple[Any, ...]]) -> list[bool | None]:
        rows("UPDATE registry_namespace SET version = version + 1 WHERE name = %s RETURNING 1", world.namespace)
        return insert(given)

    monkeypatch.setattr(accepting, "_gathered", Gathered(after_another_change))
    assert task(world.accept().task_id)["state"] == "RECEIVED"

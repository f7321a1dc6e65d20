"""Waits and streams, over committed tasks."""

import json
import uuid
from typing import Any

import pytest

from common.clock import now
from tests.committed import database, database_made  # noqa: F401 - fixtures
from tests.routing.handoff_calls import respond


@pytest.fixture
def task(database: None, monkeypatch: pytest.MonkeyPatch) -> uuid.UUID:  # noqa: F811
    from tests.routing.services.world import new_world

    return new_world(monkeypatch).accept().task_id


def cancel(task_id: uuid.UUID) -> None:
    from django.db import connections

    from routing.services.cancel import cancel

    cancel(task_id, "test", now())
    connections.close_all()


def waiting(task_id: uuid.UUID, seconds: float) -> Any:
    from routing.handoff import WaitForTask

    return WaitForTask(task_id, seconds)


def streaming(task_id: uuid.UUID, after: int = 0) -> Any:
    from routing.handoff import TaskEvents

    return TaskEvents(task_id, after)


def test_a_wait_ends_with_the_task_document(task):
    sent = respond(waiting(task, 5), during=lambda connection: cancel(task))
    document = json.loads(sent.body)
    assert (sent.status, document["taskId"], document["state"]) == (200, str(task), "CANCELLED")
    assert dict(sent.messages[0]["headers"])[b"content-length"] == str(len(sent.body)).encode()


def test_a_wait_for_an_ended_task_is_over_at_once(task):
    cancel(task)
    assert respond(waiting(task, 30), within=3).status == 200


def test_a_wait_that_is_too_short_gives_the_first_answer(task):
    sent = respond(waiting(task, 0.2), within=2)
    assert (sent.status, sent.body) == (202, b"{}")


def test_a_wait_ends_when_the_client_leaves_or_the_server_stops(task):
    sent = respond(waiting(task, 30), during=lambda connection: connection.leave(), within=3)
    assert sent.status == 202


def test_a_stream_shows_events_as_they_happen_and_ends_with_the_final_state(task):
    sent = respond(streaming(task), during=lambda connection: cancel(task))
    assert sent.events() == [(1, "RECEIVED"), (2, "CANCELLED")]
    assert sent.is_complete


def test_a_stream_goes_on_after_the_last_event_seen(task):
    cancel(task)
    assert respond(streaming(task, 1)).events() == [(2, "CANCELLED")]


def test_a_stream_after_the_last_event_closes_at_once(task):
    cancel(task)
    sent = respond(streaming(task, 2), within=3)
    assert sent.events() == []
    assert sent.is_complete


def test_a_stream_after_an_event_that_never_was_tells_the_whole_story(task):
    cancel(task)
    assert respond(streaming(task, 99)).events() == [(1, "RECEIVED"), (2, "CANCELLED")]


def test_a_stream_ends_when_the_client_leaves(task):
    sent = respond(streaming(task), during=lambda connection: connection.leave(), within=3)
    assert sent.events() == [(1, "RECEIVED")]


def test_a_quiet_stream_shows_that_it_is_alive(task, monkeypatch):
    monkeypatch.setattr("routing.handoff.HEARTBEAT_S", 0.1)
    sent = respond(streaming(task), during=lambda connection: (__import__("time").sleep(0.5), connection.leave()))
    assert sent.body.count(b": still here") >= 2


def test_a_stream_has_a_limited_life(task, monkeypatch):
    monkeypatch.setattr("routing.handoff.LIFETIME_S", 0.1)
    monkeypatch.setattr("routing.handoff.HEARTBEAT_S", 0.1)
    assert respond(streaming(task), within=3).is_complete


def test_an_events_data_is_the_journeys_event(task):
    cancel(task)
    data = [line[6:] for line in respond(streaming(task)).body.decode().split("\n") if line.startswith("data: ")]
    last = json.loads(data[-1])
    assert last.keys() == {
        "seq", "at", "event", "fromState", "toState", "attempt", "agentId", "instanceId", "node", "elapsedMs", "detail",
    }  # fmt: skip
    assert (last["fromState"], last["toState"]) == ("RECEIVED", "CANCELLED")


def test_after_a_retry_by_hand_the_stream_goes_on_to_the_new_end(task):
    from routing.services.retry import retry

    cancel(task)
    retry(task, "test", now())
    sent = respond(streaming(task, 2), during=lambda connection: cancel(task))
    assert [name for _, name in sent.events()] == ["RETRIED", "CANCELLED"]

"""What a status address and a lookup say, and when to ask again: tables."""

import datetime as dt

import pytest
from multidict import CIMultiDict

from common import clock
from common.outbound import Answer, OutboundError
from routing.channels import polling
from routing.snapshot import CapabilityView
from routing.snapshot.model import AdapterView
from routing.trip import Outcome

ECHO = CapabilityView("echo")
NOW = clock.now()


def answer(status: int = 200, body: bytes = b"{}", **headers: str) -> Answer:
    return Answer(status, CIMultiDict(headers), body, False, 0.0, 1.0, 1.0, NOW)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/status/7", "http://a.example:8080/status/7"),
        ("7", "http://a.example:8080/reach/7"),
        ("https://b.example/7?x=1", "https://b.example/7?x=1"),
        ("ftp://b.example/7", None),
        ("javascript:alert(1)", None),
        ("http://[", None),
        ("/" + "x" * 2048, None),
        ("", None),
        (None, None),
    ],
)
def test_a_status_address_is_seen_from_the_one_that_was_called(given: str | None, found: str | None) -> None:
    assert polling.status_url("http://a.example:8080/reach/invoke", given) == found


def test_the_waits_double_from_two_seconds_to_thirty() -> None:
    at, waits = dt.timedelta(seconds=2), []
    for _ in range(6):
        waits.append(polling.next_wait(at).total_seconds())
        at += dt.timedelta(seconds=waits[-1])
    assert waits == [4, 8, 16, 30, 30, 30]
    assert polling.next_wait(at, dt.timedelta(seconds=90)).total_seconds() == 90
    assert polling.next_wait(at, dt.timedelta(days=9)).total_seconds() == 3600


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'{"status": "RUNNING"}'), (200, b"{}"), (202, b""), (204, b""), (304, b""), (408, b""), (429, b""),
        (500, b"oops"), (503, b""),
    ],
)  # fmt: skip
def test_it_is_not_done_yet(status: int, body: bytes) -> None:
    assert polling.of_status(answer(status, body), ECHO, NOW) == dt.timedelta(0)


def test_the_agent_may_ask_for_a_longer_wait() -> None:
    wait = polling.of_status(answer(503, b"", **{"Retry-After": "45"}), ECHO, NOW)
    assert isinstance(wait, dt.timedelta)
    assert wait.total_seconds() == pytest.approx(45)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b'{"status": "SUCCEEDED", "data": 1}', ("SUCCEEDED", None, "RAN")),
        (200, b'{"status": "FAILED", "error": {"code": "X"}}', ("FAILED", "AGENT_FAILED", "RAN")),
        (200, b"<html>", ("FAILED", "BAD_RESPONSE", "RAN")),
        (200, b"[1]", ("FAILED", "BAD_RESPONSE", "RAN")),
        (303, b"", ("FAILED", "BAD_RESPONSE", "RAN")),
        (403, b"", ("FAILED", "BAD_RESPONSE", "RAN")),
        (404, b"", ("FAILED", "INTERNAL_ERROR", "MAYBE_RAN")),
        (410, b"", ("FAILED", "INTERNAL_ERROR", "MAYBE_RAN")),
    ],
)
def test_it_is_over(status: int, body: bytes, said: tuple) -> None:
    outcome = polling.of_status(answer(status, body), ECHO, NOW)
    assert not isinstance(outcome, dt.timedelta)
    assert (outcome.kind, outcome.code, outcome.certainty) == said


def test_an_agent_that_is_away_is_asked_again_and_a_forbidden_address_is_not() -> None:
    assert polling.of_no_status(OutboundError("UNREACHABLE", "x"), NOW) == dt.timedelta(0)
    outcome = polling.of_no_status(OutboundError("BLOCKED", "x"), NOW)
    assert not isinstance(outcome, dt.timedelta)
    assert outcome.code == "BAD_RESPONSE"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b'{"processed": true, "status": "SUCCEEDED", "data": {"y": 1}}', "SUCCEEDED"),
        (200, b'{"processed": true, "status": "FAILED"}', "FAILED"),
        (200, b'{"processed": false}', False),
        (404, b"", False),
        (200, b'{"processed": "yes"}', None),
        (200, b'{"processed": true}', None),
        (200, b"<html>", None),
        (500, b"", None),
    ],
)
def test_what_a_lookup_says(status: int, body: bytes, said: object) -> None:
    found = polling.of_lookup(answer(status, body), ECHO, NOW)
    assert (found if isinstance(found, bool) or found is None else found.kind) == said


def test_the_key_is_safe_in_the_lookup_address() -> None:
    assert polling.lookup_url("http://a/l", "o 1&ü") == "http://a/l?idempotencyKey=o%201%26%C3%BC"
    assert polling.lookup_url("http://a/l?v=1", "k") == "http://a/l?v=1&idempotencyKey=k"


@pytest.mark.parametrize(
    ("mapping", "body", "data"),
    [
        ("state == 'done' && 'SUCCEEDED' || 'RUNNING'", b'{"state": "done", "out": 5}', b"5"),
        ("state == 'done' && 'SUCCEEDED' || 'RUNNING'", b'{"state": "busy"}', None),
    ],
)
def test_a_status_address_is_read_through_the_mapping(mapping: str, body: bytes, data: bytes | None) -> None:
    adapter = AdapterView(response={"status": mapping, "data": "out"})
    found = polling.of_status(answer(200, body), ECHO, NOW, adapter)
    assert (found.data if isinstance(found, Outcome) else None) == data


def test_what_a_preset_does_not_fit_is_not_the_result_yet() -> None:
    adapter = AdapterView(preset="openai-chat")
    assert polling.of_status(answer(200, b'{"status": "queued"}'), ECHO, NOW, adapter) == dt.timedelta(0)


@pytest.mark.parametrize(
    ("preset", "under_way", "done", "data"),
    [
        ("openai-chat", b'{"status": "in_progress"}', b'{"choices": [{"message": {"content": "hi"}}]}', b'{"text":"hi"}'),
        ("dify", b'{"id": "7", "status": "running", "outputs": null}',
         b'{"id": "7", "status": "succeeded", "outputs": {"y": 1}}', b'{"y":1}'),
        ("dify", b'{"data": {"status": "running"}}', b'{"data": {"status": "succeeded", "outputs": {"y": 1}}}', b'{"y":1}'),
        ("langserve", b'{"status": "pending"}', b'{"output": 5}', b"5"),
        ("jsonrpc", b'{"jsonrpc": "2.0", "id": 1}', b'{"jsonrpc": "2.0", "id": 1, "result": 5}', b"5"),
        ("text", b'{"status": "busy"}', b"All is well.", b'{"text":"All is well."}'),
    ],
)  # fmt: skip
def test_a_status_address_is_read_through_the_preset(preset: str, under_way: bytes, done: bytes, data: bytes) -> None:
    adapter = AdapterView(preset=preset)
    assert polling.of_status(answer(200, under_way), ECHO, NOW, adapter) == dt.timedelta(0)
    found = polling.of_status(answer(200, done), ECHO, NOW, adapter)
    assert isinstance(found, Outcome)
    assert (found.kind, found.data) == ("SUCCEEDED", data)
    own = polling.of_status(answer(200, b'{"status": "SUCCEEDED", "data": 7}'), ECHO, NOW, adapter)
    assert isinstance(own, Outcome)
    assert own.data == b"7"


@pytest.mark.parametrize(
    ("preset", "body", "code", "agents"),
    [
        ("openai-chat", b'{"status": "cancelled"}', "AGENT_FAILED", "cancelled"),
        ("openai-chat", b'{"status": "failed", "error": {"code": "full", "message": "m"}}', "AGENT_FAILED", "full"),
        ("dify", b'{"status": "failed", "error": "no node"}', "AGENT_FAILED", "failed"),
        ("jsonrpc", b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32001}}', "INTERNAL_ERROR", "-32001"),
    ],
)
def test_a_failure_at_the_status_address_is_read_through_the_preset(
    preset: str, body: bytes, code: str, agents: str
) -> None:
    found = polling.of_status(answer(200, body), ECHO, NOW, AdapterView(preset=preset))
    assert isinstance(found, Outcome)
    assert (found.kind, found.code, (found.details or {})["agentCode"]) == ("FAILED", code, agents)


def test_a_lookup_without_a_word_of_its_own_is_read_through_the_mapping() -> None:
    adapter = AdapterView(response={"processed": "known", "status": "'SUCCEEDED'", "data": "out"})
    found = polling.of_lookup(answer(200, b'{"known": true, "out": 5}'), ECHO, NOW, adapter)
    assert isinstance(found, Outcome)
    assert found.data == b"5"
    assert polling.of_lookup(answer(200, b'{"processed": false, "known": true}'), ECHO, NOW, adapter) is False

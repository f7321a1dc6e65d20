"""Requests and answers of agents that speak something else: tables."""

from typing import Any

import pytest

from common.json import dumps, parse
from routing.channels.adapter import NoFit, NoSecret, headers_of, incoming, outgoing
from routing.snapshot.model import AdapterView

REQUEST = {
    "taskId": "t", "attemptKey": "k", "caller": {"client": "shop", "namespace": "n"}, "metadata": {"userId": "u"},
    "target": {"agentId": "a", "ability": "x.ask", "capability": "ask"}, "payload": {"question": "why?", "n": 2},
}  # fmt: skip
OK = "SUCCEEDED"


def sent(payload: Any = None, **adapter: Any) -> Any:
    body = dumps(REQUEST if payload is None else {**REQUEST, "payload": payload})
    return parse(outgoing(AdapterView(**adapter), body))


def got(body: Any, **adapter: Any) -> Any:
    return parse(incoming(AdapterView(**adapter), body if isinstance(body, bytes) else dumps(body)))


@pytest.mark.parametrize(
    ("preset", "payload", "body"),
    [
        ("openai-chat", {"question": "why?"}, {"messages": [{"role": "user", "content": "why?"}]}),
        ("openai-chat", {"model": "m", "messages": []}, {"model": "m", "messages": []}),
        ("openai-chat", {"n": 1}, {"messages": [{"role": "user", "content": '{"n":1}'}]}),
        ("dify", {"query": "q"}, {"inputs": {"query": "q"}, "query": "q", "response_mode": "blocking", "user": "u"}),
        ("langserve", {"n": 1}, {"input": {"n": 1}}),
        ("jsonrpc", {"n": 1}, {"jsonrpc": "2.0", "id": "k", "method": "ask", "params": {"n": 1}}),
        ("text", {"n": 1}, {**REQUEST, "payload": {"n": 1}}),
    ],
)
def test_a_preset_writes_the_request(preset: str, payload: Any, body: Any) -> None:
    assert sent(payload, preset=preset) == body


@pytest.mark.parametrize(
    ("preset", "body", "read"),
    [
        ("openai-chat", {"choices": [{"message": {"content": "so"}}], "usage": {"total_tokens": 3}},
         {"status": OK, "data": {"text": "so"}, "usage": {"total_tokens": 3}}),
        ("dify", {"data": {"status": "succeeded", "outputs": {"a": 1}}}, {"status": OK, "data": {"a": 1}}),
        ("dify", {"data": {"status": "failed", "error": "no"}},
         {"status": "FAILED", "error": {"code": "failed", "message": "no"}}),
        ("dify", {"answer": "so"}, {"status": OK, "data": {"answer": "so"}, "usage": {}}),
        ("langserve", {"output": [1]}, {"status": OK, "data": [1]}),
        ("jsonrpc", {"jsonrpc": "2.0", "result": 1, "id": "k"}, {"status": OK, "data": 1}),
        ("jsonrpc", {"jsonrpc": "2.0", "error": {"code": -32000}}, {"jsonrpc": "2.0", "error": {"code": -32000}}),
        ("text", b"plain \xe4\xbd\xa0", {"status": OK, "data": {"text": "plain 你"}}),
    ],
)  # fmt: skip
def test_a_preset_reads_the_answer(preset: str, body: Any, read: Any) -> None:
    assert got(body, preset=preset) == read


@pytest.mark.parametrize("preset", ["openai-chat", "dify", "langserve", "jsonrpc"])
@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b"<html>", b""])
def test_an_answer_that_is_no_such_thing_does_not_fit(preset: str, body: bytes) -> None:
    with pytest.raises(NoFit):
        got(body, preset=preset)


def test_mappings_of_ones_own_win_over_the_preset() -> None:
    template = {"q": "payload.question", "who": ["caller.client", "metadata.userId"], "top": {"n": "payload.n"}}
    assert sent(preset="langserve", request=template) == {"q": "why?", "who": ["shop", "u"], "top": {"n": 2}}
    assert sent(request="payload") == REQUEST["payload"]
    assert got({"r": {"x": 1}}, preset="langserve", response="r.x") == 1
    assert got({"ok": "SUCCEEDED", "r": 2}, response={"status": "ok", "data": "r"}) == {"status": OK, "data": 2}


def test_a_mapping_that_breaks_does_not_fit() -> None:
    with pytest.raises(NoFit, match="abs"):
        got({"r": "text"}, response="abs(r)")


def test_headers_are_given_their_secrets_and_a_missing_one_is_named() -> None:
    headers = (("Authorization", "Bearer ${secret:dify}"), ("X-Plain", "as it is"))
    assert headers_of(AdapterView(headers=headers, secrets={"dify": "s3"}))["Authorization"] == "Bearer s3"
    with pytest.raises(NoSecret, match="dify"):
        headers_of(AdapterView(headers=headers))
    assert "s3" not in repr(AdapterView(headers=headers, secrets={"dify": "s3"}))

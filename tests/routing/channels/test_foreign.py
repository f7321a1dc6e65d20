"""Streams of agents that speak something else: what is relayed, and what they come to in the end."""

import json
from typing import Any

import pytest

from common.json import parse
from routing.channels.chunks import NDJSON, SSE
from routing.channels.foreign import CutShort, Foreign, translates, whole
from routing.snapshot.model import AdapterView


def sse(*values: Any, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return "".join(f"{head}data: {json.dumps(value)}\n\n" for value in values).encode()


def delta(text: str | None, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


OPENAI = sse(delta(""), delta("Hel"), delta("lo"), delta(None, "stop"), {"choices": [], "usage": {"total_tokens": 9}})
DIFY = sse({"event": "ping"}, {"event": "message", "answer": "Hel"}, {"event": "message", "answer": "lo"})
DIFY_END = sse({"event": "message_end", "metadata": {"usage": {"total_tokens": 9}}})
FLOW = sse(
    {"event": "workflow_started", "data": {"id": "1"}},
    {"event": "text_chunk", "data": {"text": "half"}},
    {"event": "workflow_finished", "data": {"status": "succeeded", "outputs": {"y": 1}}},
)
SERVED = sse({"run_id": "7"}, event="metadata") + sse("Hel", "lo", event="data") + b"event: end\n\n"
RPC = sse({"jsonrpc": "2.0", "method": "progress", "params": {"n": 1}}, {"jsonrpc": "2.0", "id": 1, "result": {"y": 1}})
LINES = b'{"kind": "piece", "out": "a"}\n{"kind": "ping"}\n{"kind": "done", "state": "SUCCEEDED", "out": "ab"}\n{"out": "x"}\n'
MAPPING = {"status": "state", "data": "out"}


@pytest.mark.parametrize(
    ("adapter", "kind", "stream", "relayed", "document"),
    [
        ({"preset": "openai-chat"}, SSE, OPENAI + b"data: [DONE]\n\n", [{"text": "Hel"}, {"text": "lo"}],
         {"status": "SUCCEEDED", "data": {"text": "Hello"}, "usage": {"total_tokens": 9}}),
        ({"preset": "dify"}, SSE, DIFY + DIFY_END, [{"answer": "Hel"}, {"answer": "lo"}],
         {"status": "SUCCEEDED", "data": {"answer": "Hello"}, "usage": {"total_tokens": 9}}),
        ({"preset": "dify"}, SSE, FLOW, [{"text": "half"}], {"status": "SUCCEEDED", "data": {"y": 1}}),
        ({"preset": "langserve"}, SSE, SERVED, ["Hel", "lo"], {"status": "SUCCEEDED", "data": "Hello", "usage": {}}),
        ({"preset": "jsonrpc"}, SSE, RPC, [{"n": 1}], {"status": "SUCCEEDED", "data": {"y": 1}}),
        ({"preset": "text"}, SSE, b"data: Hel\n\ndata: lo\n\n", [{"text": "Hel"}, {"text": "lo"}],
         {"status": "SUCCEEDED", "data": {"text": "Hello"}, "usage": {}}),
        ({"response": MAPPING}, NDJSON, LINES, [{"status": None, "data": "a"}], {"status": "SUCCEEDED", "data": "ab"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_stream_is_relayed_and_ends_in_the_form_of_the_contract(
    adapter: dict[str, Any], kind: str, stream: bytes, relayed: list[Any], document: dict[str, Any], size: int
) -> None:
    view = AdapterView(**adapter)
    foreign = Foreign(view, kind)
    found = [chunk for at in range(0, len(stream), size) for chunk in foreign.feed(stream[at : at + size])]
    assert [json.loads(chunk) for chunk in found] == relayed
    assert parse(foreign.whole()) == document == parse(whole(view, kind, stream))


def test_a_mapping_that_gives_no_data_with_the_end_has_what_was_streamed() -> None:
    view = AdapterView(response={"status": "state", "data": "out"})
    body = whole(view, NDJSON, b'{"out": 1}\n{"out": 2}\n{"state": "SUCCEEDED"}\n')
    assert parse(body)["data"] == [{"status": None, "data": 1}, {"status": None, "data": 2}]


@pytest.mark.parametrize(
    ("preset", "stream", "error"),
    [
        ("openai-chat", sse({"error": {"code": "overloaded", "message": "busy"}}), ("overloaded", "busy")),
        ("dify", sse({"event": "error", "code": "quota", "message": "none left"}), ("quota", "none left")),
        ("langserve", sse({"status_code": 500, "message": "oops"}, event="error"), ("500", "oops")),
    ],
)
def test_an_error_in_the_stream_is_a_failure_with_the_agents_own_words(
    preset: str, stream: bytes, error: tuple[str, str]
) -> None:
    found = parse(whole(AdapterView(preset=preset), SSE, stream))
    assert (found["status"], found["error"]["code"], found["error"]["message"]) == ("FAILED", *error)


@pytest.mark.parametrize(
    ("adapter", "stream", "parts"),
    [
        ({"preset": "openai-chat"}, sse(delta("Hel")), [{"text": "Hel"}]),
        ({"preset": "dify"}, DIFY, [{"answer": "Hel"}, {"answer": "lo"}]),
        ({"preset": "langserve"}, sse("Hel", event="data"), ["Hel"]),
        ({"preset": "jsonrpc"}, sse({"method": "progress", "params": 1}), [1]),
        ({"response": MAPPING}, sse({"out": "a"}), [{"status": None, "data": "a"}]),
    ],
)
def test_a_stream_without_its_end_is_cut_short_and_keeps_its_part(
    adapter: dict[str, Any], stream: bytes, parts: list[Any]
) -> None:
    with pytest.raises(CutShort) as caught:
        whole(AdapterView(**adapter), SSE, stream)
    assert [json.loads(chunk) for chunk in caught.value.chunks] == parts


@pytest.mark.parametrize("preset", ["openai-chat", "dify", "langserve", "jsonrpc"])
def test_chunks_of_any_other_shape_are_passed_over(preset: str) -> None:
    foreign = Foreign(AdapterView(preset=preset), SSE)
    odd = sse(1, "x", [], {}, None, {"choices": 5}, {"choices": [1]}, {"event": "message"}, {"event": "text_chunk"})
    assert foreign.feed(odd + b"data: \xff\xfe\n\n") == []


def test_without_a_mapping_nothing_is_translated() -> None:
    assert not translates(None)
    assert not translates(AdapterView(headers=(("A", "b"),)))

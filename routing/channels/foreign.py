"""Streams of agents that speak something else, chunk by chunk in the form of the contract. Pure.

A mapping of the manifest's own looks at each chunk: what it makes of it is relayed, unless it found nothing, and what
has `status` SUCCEEDED or FAILED is the result. Presets:

| preset      | relayed                               | its end                                     | the data         |
|-------------|---------------------------------------|---------------------------------------------|------------------|
| openai-chat | `{"text"}` of each `choices[0].delta` | a `finish_reason`, or `[DONE]`              | `{"text"}`       |
| dify        | `{"answer"}` or `{"text"}`            | `message_end`, `workflow_finished`, `error` | `{"answer"}`, or |
|             |                                       |                                             | the outputs      |
| langserve   | the chunks of the event `data`        | the events `end` and `error`                | the chunks       |
| jsonrpc     | `params` of what has a `method`       | `result` or `error`                         | `result`         |
| text        | `{"text"}` of each chunk              | the answer's end                            | `{"text"}`       |

Texts are joined in the data, chunks that are no texts are a list there.
What comes after the end is left out. A chunk that does not fit is passed over: a stream is more than its results.
"""

from collections.abc import Callable, Sequence
from typing import Any

from common.json import dumps
from routing.channels.adapter import NoFit, incoming_value, mapped
from routing.channels.chunks import DONE, Chunks, is_result, value_of
from routing.snapshot.model import AdapterView


class CutShort(NoFit):
    """The stream ended without its end; `chunks` are those that came."""

    def __init__(self, chunks: Sequence[bytes]):
        super().__init__("its stream ended without its end")
        self.chunks = chunks


class Stream:
    """One answer's: `parts` are the chunks in the form of the contract so far, `end` its result, once it came."""

    def __init__(self, preset: str | None = None, template: Any = None):
        self._read = _READERS.get(preset) if template is None else None
        self._template = template
        self.parts: list[Any] = []
        self.usage: dict[str, Any] = {}
        self.is_whole = False  # the end came, and the parts are the result
        self.end: Any = None

    def take(self, event: str, data: bytes) -> list[bytes]:
        """What is relayed of a chunk: itself in the form of the contract, or nothing."""
        if self.end is not None or not (event or data):
            return []
        try:
            part = self._read(self, event, data) if self._read else self._mapped(data)
        except (NoFit, AttributeError, TypeError, LookupError):  # of another shape than its preset's
            return []
        if part is None:
            return []
        self.parts.append(part)
        return [dumps(part)]

    def _mapped(self, data: bytes) -> Any:
        made = mapped(self._template, value_of(data))
        if is_result(made):
            has_data = made["status"] == "FAILED" or made.get("data") is not None
            self.end = made if has_data else {**made, "data": self.parts}
            return None
        says_something = (
            any(value is not None for value in made.values()) if isinstance(made, dict) else made is not None
        )
        return made if says_something else None

    def joined(self, name: str | None = None) -> Any:
        """The parts, or what they have under this name, as one text; as a list where they are no texts."""
        found = self.parts if name is None else [part[name] for part in self.parts if name in part]
        return "".join(found) if all(isinstance(one, str) for one in found) else found


class Foreign:
    """Cuts and translates one stream. `translates` says whether there is anything to translate for an adapter."""

    def __init__(self, adapter: AdapterView, kind: str):
        self._cut, self._preset = Chunks(kind), adapter.preset if adapter.response is None else None
        self._stream = Stream(adapter.preset, adapter.response)

    def feed(self, part: bytes) -> list[bytes]:
        """The chunks that this part completes, but for the result."""
        return [chunk for event, data in self._cut.events(part) for chunk in self._stream.take(event, data)]

    def whole(self) -> bytes:
        """After the last part the answer as if it had come in one piece. Raises CutShort."""
        self.feed(b"\n\n")
        stream = self._stream
        if stream.end is not None:
            return dumps(stream.end)
        if not (stream.is_whole or self._preset == "text"):
            raise CutShort([dumps(part) for part in stream.parts])
        name = {"openai-chat": "text", "text": "text", "dify": "answer"}.get(self._preset or "")
        data = {name: stream.joined(name)} if name else stream.joined()
        return dumps({"status": "SUCCEEDED", "data": data, "usage": stream.usage})


def translates(adapter: AdapterView | None) -> bool:
    """Whether its streams are in a form of their own."""
    return adapter is not None and (adapter.response is not None or adapter.preset in _READERS)


def whole(adapter: AdapterView, kind: str, body: bytes) -> bytes:
    """A whole stream as an answer in one piece. Raises CutShort."""
    foreign = Foreign(adapter, kind)
    foreign.feed(body)
    return foreign.whole()


def _openai(stream: Stream, _event: str, data: bytes) -> Any:
    if data.strip() == DONE:
        stream.is_whole = True
        return None
    value = value_of(data)
    if value.get("error"):
        stream.end = _failed(value["error"])
        return None
    stream.usage = value.get("usage") or stream.usage
    for choice in value.get("choices") or []:
        stream.is_whole |= choice.get("finish_reason") is not None
        if text := (choice.get("delta") or {}).get("content"):
            return {"text": str(text)}
    return None


def _dify(stream: Stream, _event: str, data: bytes) -> Any:
    value = value_of(data)
    kind = value.get("event")
    if kind == "workflow_finished":
        stream.end = incoming_value("dify", value)
    elif kind == "error":
        stream.end = _failed(value)
    elif kind == "message_end":
        stream.is_whole, stream.usage = True, (value.get("metadata") or {}).get("usage") or {}
    elif kind in ("message", "agent_message"):
        return {"answer": str(value["answer"])}
    elif kind == "text_chunk":
        return {"text": str(value["data"]["text"])}
    return None


def _langserve(stream: Stream, event: str, data: bytes) -> Any:
    if event == "end":
        stream.is_whole = True
    elif event == "error":
        stream.end = _failed(value_of(data))
    return value_of(data) if event == "data" else None


def _jsonrpc(stream: Stream, _event: str, data: bytes) -> Any:
    value = value_of(data)
    if "method" in value:
        return value.get("params")
    stream.end = incoming_value("jsonrpc", value)
    return None


def _text(_stream: Stream, _event: str, data: bytes) -> Any:
    return {"text": data.decode("utf-8", "replace")}


def _failed(said: Any) -> dict[str, Any]:
    error = said if isinstance(said, dict) else {"message": said}
    code = error.get("code") or error.get("type") or error.get("status_code") or "ERROR"
    return {"status": "FAILED", "error": {"code": str(code), "message": str(error.get("message") or "")}}


_READERS: dict[str | None, Callable[[Stream, str, bytes], Any]] = {
    "openai-chat": _openai,
    "dify": _dify,
    "langserve": _langserve,
    "jsonrpc": _jsonrpc,
    "text": _text,
}

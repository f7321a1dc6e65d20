"""Agents that speak something else: the request rewritten for them, and their answer for us. Pure.

A mapping is a JMESPath expression, or an object (or list) of such, which gives an object of what they find. The
request's mapping looks at the task request, the answer's at the answer. What a preset says holds where the manifest
gives no mapping of its own.

| preset      | request                                                     | the result's data                   |
|-------------|-------------------------------------------------------------|-------------------------------------|
| openai-chat | payload with `messages` as it is, else one user message     | `{"text": choices[0].message.content}` |
| dify        | `{"inputs", "query", "response_mode": "blocking", "user"}`  | a workflow's outputs, or `{"answer"}` |
| langserve   | `{"input": payload}`                                        | `output`                            |
| jsonrpc     | `{"jsonrpc": "2.0", "id", "method": capability, "params"}`  | `result`                            |
| text        | as it is                                                    | `{"text": the answer}`              |
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from common.json import BadAnswer, dumps, parse, parse_lenient
from routing.snapshot.model import AdapterView

_SECRET = re.compile(r"\$\{secret:([^}]*)\}")


class NoFit(Exception):
    """A mapping or preset does not fit what it was given."""


class NoSecret(Exception):
    """A header names a secret that is not set."""


def outgoing(adapter: AdapterView, body: bytes) -> bytes:
    """The request in the agent's own form. Raises NoFit."""
    document = parse(body)
    if adapter.request is not None:
        return dumps(mapped(adapter.request, document))
    make = _REQUESTS.get(adapter.preset)
    return dumps(make(document)) if make else body


def incoming(adapter: AdapterView, body: bytes) -> bytes:
    """The agent's answer in the form of the contract: an envelope with `status`, or data. Raises NoFit."""
    if adapter.preset == "text" and adapter.response is None:
        return dumps({"status": "SUCCEEDED", "data": {"text": body.decode("utf-8", "replace")}})
    read = _RESPONSES.get(adapter.preset)
    if adapter.response is None and read is None:
        return body
    try:
        value = parse_lenient(body)
    except BadAnswer as error:
        raise NoFit(f"it is not usable JSON: {error}") from None
    if adapter.response is not None:
        return dumps(mapped(adapter.response, value))
    return dumps(read(value)) if read else body


def incoming_value(preset: str, value: Any) -> Any:
    """An answer that this preset reads, in the form of the contract. Raises NoFit."""
    return _RESPONSES[preset](value)


def polled(adapter: AdapterView, body: bytes) -> bytes:
    """What the agent's status address says, in the form of the contract. Raises NoFit where it is not the result yet.

    By a preset too: an answer that already has the contract's form is taken as it is.
    """
    if adapter.response is not None or adapter.preset is None:
        return incoming(adapter, body)
    try:
        value = parse_lenient(body)
    except BadAnswer:
        value = None
    if isinstance(value, dict) and not _is_end(value) and adapter.preset in _UNDER_WAY:
        value = _UNDER_WAY[adapter.preset](value)
    return dumps(value) if _is_end(value) else incoming(adapter, body if value is None else dumps(value))


def _is_end(value: Any) -> bool:
    return isinstance(value, dict) and value.get("status") in ("SUCCEEDED", "FAILED")


def headers_of(adapter: AdapterView) -> dict[str, str]:
    """The adapter's headers with their secrets. Raises NoSecret, which names the missing one."""
    return {name: _SECRET.sub(lambda found: _secret(adapter.secrets, found[1]), text) for name, text in adapter.headers}


def _secret(secrets: Mapping[str, str], name: str) -> str:
    if name not in secrets:
        raise NoSecret(name)
    return secrets[name]


def mapped(template: Any, value: Any) -> Any:
    """What a mapping makes of a value. Raises NoFit."""
    if isinstance(template, str):
        try:
            return _expression(template).search(value)
        except (JMESPathError, TypeError, ValueError) as error:
            raise NoFit(f"the mapping {template!r} does not fit: {error}") from None
    if isinstance(template, dict):
        return {name: mapped(inner, value) for name, inner in template.items()}
    return [mapped(inner, value) for inner in template] if isinstance(template, list) else template


@functools.lru_cache(maxsize=4096)
def _expression(text: str) -> Any:
    return jmespath.compile(text)


def _openai_request(document: dict[str, Any]) -> Any:
    payload = document["payload"]
    if "messages" in payload:
        return payload
    known = next((payload[name] for name in ("prompt", "question", "query", "text") if name in payload), None)
    content = known if isinstance(known, str) else dumps(payload).decode()
    model = {"model": payload["model"]} if "model" in payload else {}
    return {**model, "messages": [{"role": "user", "content": content}]}


def _openai_response(value: Any) -> Any:
    text = mapped("choices[0].message.content", value)
    if text is None:
        raise NoFit("it has no choices[0].message.content")
    return {"status": "SUCCEEDED", "data": {"text": text}, "usage": value.get("usage") or {}}


def _dify_request(document: dict[str, Any]) -> Any:
    payload, user = document["payload"], (document.get("metadata") or {}).get("userId")
    query = {"query": payload["query"]} if "query" in payload else {}
    return {"inputs": payload, **query, "response_mode": "blocking", "user": str(user or document["caller"]["client"])}


def _dify_response(value: Any) -> Any:
    flow = value.get("data") if isinstance(value, dict) else None
    if isinstance(flow, dict) and "status" in flow:
        if flow["status"] == "succeeded":
            return {"status": "SUCCEEDED", "data": flow.get("outputs") or {}}
        return {"status": "FAILED", "error": {"code": str(flow["status"]), "message": str(flow.get("error") or "")}}
    if isinstance(value, dict) and "answer" in value:
        usage = (value.get("metadata") or {}).get("usage") if isinstance(value.get("metadata"), dict) else None
        return {"status": "SUCCEEDED", "data": {"answer": value["answer"]}, "usage": usage or {}}
    raise NoFit("it has neither data.status nor answer")


def _dify_run(value: dict[str, Any]) -> dict[str, Any]:
    """The state of a workflow's run, which its own address gives without the answer's envelope."""
    run = value["data"] if isinstance(value.get("data"), dict) else value
    if "status" in run and run["status"] not in ("succeeded", "failed", "stopped", "partial-succeeded"):
        raise NoFit("it is under way")
    return {"data": run} if "status" in run else value


def _openai_run(value: dict[str, Any]) -> dict[str, Any]:
    if value.get("status") not in ("failed", "cancelled", "incomplete"):
        return value
    error = value["error"] if isinstance(value.get("error"), dict) else {}
    said = {"code": str(error.get("code") or value["status"]), "message": str(error.get("message") or "")}
    return {"status": "FAILED", "error": said}


def _text_run(value: dict[str, Any]) -> dict[str, Any]:
    if "status" in value:
        raise NoFit("it tells of a state, and is not the text yet")
    return value


def _langserve_response(value: Any) -> Any:
    if not isinstance(value, dict) or "output" not in value:
        raise NoFit("it has no output")
    return {"status": "SUCCEEDED", "data": value["output"]}


def _jsonrpc_request(document: dict[str, Any]) -> Any:
    method = document["target"]["capability"]
    return {"jsonrpc": "2.0", "id": document["attemptKey"], "method": method, "params": document["payload"]}


def _jsonrpc_response(value: Any) -> Any:
    if isinstance(value, dict) and value.get("error") is not None:
        return {"jsonrpc": "2.0", "error": value["error"]}
    if not isinstance(value, dict) or "result" not in value:
        raise NoFit("it has neither result nor error")
    return {"status": "SUCCEEDED", "data": value["result"]}


_REQUESTS: dict[str | None, Callable[[dict[str, Any]], Any]] = {
    "openai-chat": _openai_request,
    "dify": _dify_request,
    "langserve": lambda document: {"input": document["payload"]},
    "jsonrpc": _jsonrpc_request,
}
_RESPONSES: dict[str | None, Callable[[Any], Any]] = {
    "openai-chat": _openai_response,
    "dify": _dify_response,
    "langserve": _langserve_response,
    "jsonrpc": _jsonrpc_response,
}
_UNDER_WAY: dict[str | None, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "openai-chat": _openai_run,
    "dify": _dify_run,
    "text": _text_run,
}

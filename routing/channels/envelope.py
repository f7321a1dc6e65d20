"""The request that an agent gets: bytes around the caller's own bytes, and signed headers."""

import datetime as dt
import functools
from typing import Any
from urllib.parse import quote

import msgspec
from yarl import URL

from common.clock import rfc3339
from common.ids import trace_id_of, traceparent
from common.signing import new_nonce, sign
from routing.channels.base import Sending
from routing.snapshot.model import CapabilityView, InstanceView

_encode = msgspec.json.Encoder().encode
_NO_METADATA = msgspec.Raw(b"{}")
_MILLISECOND = dt.timedelta(milliseconds=1)


def request_body(sending: Sending, now: dt.datetime, **more: Any) -> bytes:
    """The task request as JSON, with `more` members; payload and metadata are the very bytes that the caller sent."""
    dispatch, task = sending.dispatch, sending.dispatch.task
    return _encode(
        {
            "schemaVersion": "1.0",
            "messageType": "task.request",
            "taskId": str(task.task_id),
            "traceId": task.trace_id,
            "correlationId": task.correlation_id,
            "sessionId": task.session_id,
            "caller": {"client": task.client, "namespace": task.namespace},
            "target": {
                "agentId": dispatch.agent_id,
                "ability": task.serving,
                "capability": dispatch.capability,
            },
            "payload": msgspec.Raw(sending.payload),
            "attempt": dispatch.number,
            "idempotencyKey": task.idempotency_key,
            "attemptKey": str(dispatch.attempt_key),
            "timeoutMs": _left_ms(dispatch.deadline_at, dispatch.sent_at),
            "timeoutBudgetMs": _left_ms(task.deadline_at, now),
            "resultUrl": sending.result_url,
            "resultToken": sending.result_token,
            "metadata": _NO_METADATA if sending.metadata is None else msgspec.Raw(sending.metadata),
            **more,
        }
    )


def request_headers(
    sending: Sending, url: str, body: bytes, now: dt.datetime, *, method: str | None = None
) -> dict[str, str]:
    """The headers of a task request, signed with the agent's key if it has one; `method` if not the capability's."""
    dispatch, task = sending.dispatch, sending.dispatch.task
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "traceparent": traceparent(trace_id_of(task.trace_id)),
        "Idempotency-Key": header_text(task.idempotency_key),
        "Reach-Task-Id": str(task.task_id),
        "Reach-Attempt": str(dispatch.number),
        "Reach-Deadline": rfc3339(dispatch.deadline_at) or "",
        "Reach-Call-Path": ",".join([*task.call_path, dispatch.agent_id]),
    }
    if sending.agent.signing:
        path, query = signed_parts(url)
        access_key, secret = sending.agent.signing
        method = method or sending.capability.method
        headers |= sign(method, path, query, body, access_key, secret, created=int(now.timestamp()), nonce=new_nonce())
    return headers


@functools.lru_cache(maxsize=4096)
def target_url(invoke_url: str, path: str) -> str:
    """The address of a capability: its path below the instance's invoke address, before the query."""
    if path in ("", "/"):
        return invoke_url
    base, mark, query = invoke_url.partition("?")
    return f"{base.rstrip('/')}/{path.lstrip('/')}{mark}{query}"


def url_of(instance: InstanceView, capability: CapabilityView) -> str:
    return target_url(instance.invoke_url, capability.path)


def header_text(text: str) -> str:
    """As it is where it is visible ASCII, else with %XX for everything that a header cannot carry safely."""
    return text if text.isascii() and text.isprintable() else quote(text, safe="")


@functools.lru_cache(maxsize=4096)
def signed_parts(url: str) -> tuple[str, str]:
    """Path and query as a signature covers them."""
    parsed = URL(url, encoded=True)
    return parsed.raw_path or "/", parsed.raw_query_string


def _left_ms(until: dt.datetime, now: dt.datetime) -> int:
    return max(0, (until - now) // _MILLISECOND)

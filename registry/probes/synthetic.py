"""Healthy when the agent does a harmless piece of work: a capability's own sample, on the path that tasks take.

The request looks like a task's, so that it takes the same way through the agent, but it is none: nothing is stored or
counted, and it says so by the header `Reach-Probe: 1` and `metadata.reachProbe`.
"""

import time
from typing import Any

from yarl import URL

from common.encoding import dumps
from common.ids import new_trace_id, uuid7
from common.outbound import Answer, Outbound
from common.schema import Validator
from common.signing import new_nonce, sign
from registry.probes.base import CannotProbe, Sample, Target
from registry.probes.body import is_json, parsed, wrong_status
from registry.probes.http import CONNECT_TIMEOUT_S

KEPT_BYTES = 262_144


async def probe(target: Target, out: Outbound) -> str:
    """One request with the capability's sample; 202 counts as well."""
    sample = target.sample
    if sample is None:
        raise CannotProbe("no capability with sideEffects: false has a requestSample")
    body = _body(sample, round(target.timeout_s * 1000))
    answer = await out.request(
        sample.method,
        target.url,
        headers={**_headers(sample, target.url, body), **target.headers},
        body=body,
        connect_timeout_s=min(CONNECT_TIMEOUT_S, target.timeout_s),
        total_timeout_s=target.timeout_s,
        max_bytes=KEPT_BYTES,
    )
    if wrong := wrong_status(answer.status, target.expect.get("status")):
        return wrong
    return "" if answer.status == 202 else _wrong_answer(answer, sample.output)


def _body(sample: Sample, timeout_ms: int) -> bytes:
    task_id = str(uuid7())
    return dumps({
        "schemaVersion": "1.0",
        "messageType": "task.request",
        "taskId": task_id,
        "traceId": new_trace_id(),
        "correlationId": "reach-probe",
        "sessionId": "reach-probe" if sample.stateful else None,
        "caller": {"client": "reach-probe", "namespace": sample.namespace},
        "target": {"agentId": sample.agent_id, "ability": sample.capability, "capability": sample.capability},
        "payload": sample.payload,
        "attempt": 1,
        "idempotencyKey": task_id,
        "attemptKey": task_id,
        "timeoutMs": timeout_ms,
        "timeoutBudgetMs": timeout_ms,
        "resultUrl": None,
        "resultToken": None,
        "metadata": {"reachProbe": True},
    })  # fmt: skip


def _headers(sample: Sample, url: str, body: bytes) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Reach-Probe": "1"}
    if sample.signing is None:
        return headers
    place, created = URL(url, encoded=True), int(time.time())
    path, query = place.raw_path or "/", place.raw_query_string
    return headers | sign(sample.method, path, query, body, *sample.signing, created=created, nonce=new_nonce())


def _wrong_answer(answer: Answer, output: Any) -> str:
    """As for a task's answer: no error inside, and data that fits the output schema."""
    value = parsed(answer)
    if not is_json(value):
        return "the answer is no JSON"
    data = value
    if isinstance(value, dict):
        error = value.get("error")
        if value.get("status") == "FAILED" or ("status" not in value and error):
            said = error.get("message") or error.get("code") if isinstance(error, dict) else error
            return f"the answer is a failure: {said}"
        data = value.get("data") if value.get("status") == "SUCCEEDED" else value
    if output is None:
        return ""
    errors = Validator(output).errors(data, limit=1)
    return f"the answer does not fit the output schema: {errors[0]['pointer']} {errors[0]['message']}" if errors else ""

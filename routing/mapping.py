"""Trying an adapter's mapping on samples: what the agent would be sent, and what would be made of its answer. Pure."""

from dataclasses import dataclass, field
from typing import Any

import jmespath

from common.clock import now
from common.encoding import pointer
from common.json import BadAnswer, dumps, parse_lenient
from common.schema import Validator
from registry.manifest import adapter_problems, expressions
from registry.manifest_schema import ADAPTER
from routing.channels.adapter import NoFit, incoming, outgoing
from routing.channels.answers import classify
from routing.snapshot.model import AdapterView, CapabilityView
from routing.trip import Outcome

_VALIDATOR = Validator(ADAPTER, name="adapter")


@dataclass(slots=True)
class Trial:
    """What came of it. `problems` are {"pointer", "message"}: what is wrong; `silent` the expressions that found
    nothing, which may be meant."""

    request: bytes | None = None
    outcome: Outcome | None = None
    problems: list[dict[str, str]] = field(default_factory=list)
    silent: list[dict[str, str]] = field(default_factory=list)


def tried(given: dict[str, Any], capability: CapabilityView, payload: Any, answer: bytes) -> Trial:
    """The trial of an adapter as a manifest has it, on a payload and an answer with status 200."""
    trial = Trial(problems=_wrong(given))
    if trial.problems:
        return trial
    adapter = AdapterView(given.get("preset"), given.get("request"), given.get("response"))
    sample = dumps(sample_request(capability.name, payload))
    _silent(trial, "request", given.get("request"), sample)
    try:
        trial.request = outgoing(adapter, sample)
    except (NoFit, AttributeError, KeyError, TypeError) as error:
        trial.problems.append({"pointer": "/request", "message": str(error)})
    _silent(trial, "response", given.get("response"), answer)
    try:
        trial.outcome = classify(200, {}, incoming(adapter, answer), capability, now())
    except NoFit as error:
        trial.problems.append({"pointer": "/response", "message": str(error)})
    return trial


def sample_request(capability: str, payload: Any) -> dict[str, Any]:
    """A task request with what every one has."""
    id = "01970000-0000-7000-8000-000000000000"
    return {
        "schemaVersion": "1.0",
        "messageType": "task.request",
        "taskId": id,
        "traceId": "0" * 31 + "1",
        "correlationId": "order-10086",
        "sessionId": None,
        "caller": {"client": "sample", "namespace": "sample"},
        "target": {"agentId": "sample", "ability": capability, "capability": capability},
        "payload": payload,
        "attempt": 1,
        "idempotencyKey": "order-10086",
        "attemptKey": id,
        "timeoutMs": 30_000,
        "timeoutBudgetMs": 60_000,
        "metadata": {},
    }


def _wrong(given: dict[str, Any]) -> list[dict[str, str]]:
    """What registration would refuse."""
    errors = _VALIDATOR.errors(given, limit=20) or [
        {**one, "pointer": one["pointer"].removeprefix("/spec/adapter")} for one in adapter_problems({"adapter": given})
    ]
    return [{"pointer": one["pointer"], "message": one["message"]} for one in errors]


def _silent(trial: Trial, side: str, template: Any, document: bytes) -> None:
    try:
        value = parse_lenient(document)
    except BadAnswer:
        return  # said by whoever reads it next
    for at, expression in expressions(template, (side,)):
        try:
            found = jmespath.search(expression, value)
        except (jmespath.exceptions.JMESPathError, TypeError, ValueError):
            continue
        if found is None:
            trial.silent.append({"pointer": pointer(at), "message": expression})

"""Tasks in every shape, written straight into the tables: what the readers here must be able to show."""

import datetime as dt
import json
import uuid
from typing import Any

from callbacks.models import Callback, Delivery
from common.ids import sibling, uuid7
from routing.models import Attempt, Event, Task, TaskBody
from routing.states import FINAL

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)


def ms(number: float) -> dt.timedelta:
    return dt.timedelta(milliseconds=number)


def make_task(namespace: str, state: str = "SUCCEEDED", *, at: dt.datetime = NOW, **fields: Any) -> Task:
    """A task with its body; ended ones took 200 ms."""
    ended = at + ms(200) if state in FINAL else None
    payload = fields.pop("payload", {"ticketTitle": "Cannot log in", "ticketContent": "secret words"})
    result = fields.pop(
        "result", {"status": "SUCCEEDED", "data": {"category": "login"}, "degraded": False, "cost": None}
    )
    values = {
        "id": uuid7(at), "namespace": namespace, "client": "shop", "ability": "ticket.classify",
        "trace_id": uuid.uuid4().hex, "state": state, "state_since": ended or at, "outcome": ended and state,
        "waiting": state in ("RECEIVED", "RETRY_WAIT"), "due_at": at, "max_attempts": 3, "idempotency_key": "k",
        "created_at": at, "budget_at": at + ms(60_000), "expires_at": at + ms(90_000), "deadline_at": at + ms(60_000),
        "ended_at": ended, **fields,
    }  # fmt: skip
    task = Task.objects.create(**values)
    raw = json.dumps(result, separators=(",", ":")).encode() if state == "SUCCEEDED" else None
    TaskBody.objects.create(task_id=task.id, request=json.dumps({"payload": payload}).encode(), result=raw)
    make_event(task, 1, "RECEIVED", to_state="RECEIVED", at=at)
    return task


def make_event(task: Task, seq: int, event: str, **fields: Any) -> Event:
    at = fields.pop("at", task.created_at + ms(5 * seq))
    values = {"node": "host:1", "elapsed_ms": (at - task.created_at) // ms(1), **fields}
    return Event.objects.create(task_id=task.id, seq=seq, at=at, event=event, **values)


def make_attempt(task: Task, number: int = 1, *, outcome: str | None = "SUCCEEDED", **fields: Any) -> Attempt:
    sent = fields.pop("sent_at", task.created_at + ms(20 * number))
    values = {
        "key": uuid7(), "namespace": task.namespace, "agent_id": "ticket-classifier", "instance_id": "i-1",
        "capability": "classify", "channel": "http", "certainty": "RAN" if outcome else "MAYBE_RAN",
        "outcome": outcome, "sent_at": sent, "received_at": sent + ms(10), "deadline_at": sent + ms(5000),
        "ended_at": sent + ms(100) if outcome else None,
        "decision": {
            "strategy": "least_conn", "tookMs": 0.2, "chosen": {"agentId": "ticket-classifier", "instanceId": "i-1"},
            "candidates": [
                {"agentId": "ticket-classifier", "instanceId": "i-1", "score": 0.9, "inflight": 1, "rejected": None},
                {"agentId": "ticket-classifier", "instanceId": "i-2", "score": None, "inflight": 4, "rejected": "OFFLINE"},
            ],
        },
        **fields,
    }  # fmt: skip
    return Attempt.objects.create(task_id=task.id, number=number, **values)


def make_callback(task: Task, state: str = "DELIVERED", *, errors: tuple[str | None, ...] = (None,)) -> Callback:
    """A callback with a delivery for each of `errors` (None = it was taken)."""
    start = task.ended_at or task.created_at
    callback = Callback.objects.create(
        id=sibling(task.id), subject_id=task.id, namespace=task.namespace, client=task.client, body=b"{}",
        url="https://shop.example/callback", state=state, attempts=len(errors), created_at=start,
        last_error=errors[-1] if errors else None, due_at=start + ms(30_000) if state == "PENDING" else None,
    )  # fmt: skip
    for number, error in enumerate(errors, 1):
        Delivery.objects.create(
            callback_id=callback.id, number=number, at=start + ms(30_000 * (number - 1) + 4), took_ms=12,
            status=500 if error else 204, error=error,
        )  # fmt: skip
    Task.objects.filter(id=task.id).update(callback_id=callback.id)
    task.callback_id = callback.id
    return callback

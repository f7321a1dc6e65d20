"""A task's whole journey: events, routing decisions, attempts, callback deliveries, and the summary in plain words."""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import QuerySet

from callbacks.models import Callback, CallbackState, Delivery
from common.clock import rfc3339
from common.errors import NotFound
from insight.summary import Facts, Summary, summarise
from routing.models import Attempt, Event, Task, TaskBody
from routing.states import OPEN, Certainty

_MANY = 2000  # an agent may report progress without end; nobody reads further


@dataclass(slots=True)
class Journey:
    """One task's rows, oldest first; six queries."""

    task: Task
    events: list[Event]
    attempts: list[Attempt]
    callbacks: list[Callback]
    deliveries: list[Delivery]
    body: TaskBody | None

    @property
    def callback(self) -> Callback | None:
        """The callback of the last end, if one was asked for."""
        return next((c for c in reversed(self.callbacks) if c.id == self.task.callback_id), None)

    @property
    def waits_for(self) -> str | None:
        """Why an open task cannot be placed, as the last WAITING event says."""
        last = next((e for e in reversed(self.events) if e.event != "PROGRESS"), None)
        return str((last.detail or {}).get("reason") or "?") if last and last.event == "WAITING" else None

    def summary(self, now: dt.datetime) -> Summary:
        """Cause, side, what happens next."""
        return summarise(facts(self), now)


def load(task_id: uuid.UUID, among: QuerySet[Task]) -> Journey:
    """The journey of a task that is `among` those one may see. Raises NotFound."""
    task = among.filter(id=task_id).first()
    if task is None:
        raise NotFound
    callbacks = list(
        Callback.objects.filter(subject_id=task_id, **_same_partition(task_id)).order_by("created_at", "id")
    )
    return Journey(
        task=task,
        events=list(Event.objects.filter(task_id=task_id).exclude(event="CHUNK").order_by("seq")[:_MANY]),
        attempts=list(Attempt.objects.filter(task_id=task_id).order_by("number")),
        callbacks=callbacks,
        deliveries=list(Delivery.objects.filter(callback_id__in=[c.id for c in callbacks]).order_by("at", "number")),
        body=TaskBody.objects.filter(task_id=task_id).first(),
    )


def journey(
    task_id: uuid.UUID, now: dt.datetime, *, namespace: str | None = None, client: str | None = None
) -> dict[str, Any]:
    """The document of GET /v1/tasks/{id}/journey. Raises NotFound."""
    return document(load(task_id, Task.objects.filter(**_given(namespace=namespace, client=client))), now)


def document(found: Journey, now: dt.datetime) -> dict[str, Any]:
    """The same from rows that are loaded already."""
    return {
        "taskId": str(found.task.id),
        "traceId": found.task.trace_id,
        "state": found.task.state,
        "events": [_event(e) for e in found.events],
        "decisions": decisions(found),
        "attempts": [_attempt(a) for a in found.attempts],
        "callbacks": [_callback(c, newest=c is found.callbacks[-1]) for c in found.callbacks],
        "callbackAttempts": [_delivery(d) for d in found.deliveries],
        "summary": _summary(found.summary(now)),
    }


def decisions(found: Journey) -> list[dict[str, Any]]:
    """Who was chosen and who was not, for each attempt, and for the times when nobody could be chosen."""
    chosen = [(a.number, a.sent_at, a.decision) for a in found.attempts if a.decision]
    details = [(e, e.detail or {}) for e in found.events if e.event == "WAITING"]
    nobody = [(e.attempt or None, e.at, d["decision"]) for e, d in details if isinstance(d.get("decision"), dict)]
    rows = sorted([*chosen, *nobody], key=lambda row: row[1])
    return [{"attempt": number, "at": rfc3339(at), **_decision(decision)} for number, at, decision in rows]


def facts(found: Journey) -> Facts:
    """What the summary depends on."""
    task, callback = found.task, found.callback
    last = found.attempts[-1] if found.attempts else None
    return Facts(
        state=task.state,
        code=task.error_code,
        agent=(last.agent_id if last else None) or task.agent_id,
        certainty=_worst(found.attempts),
        last_code=last.code if last else None,
        attempts=task.attempts,
        max_attempts=task.max_attempts,
        due_at=task.due_at,
        attempt_deadline=last.deadline_at if last and last.ended_at is None else None,
        not_before=task.not_before,
        waits_for=found.waits_for if task.state in OPEN else None,
        degraded_by=_degraded_by(found.body),
        strikes=(task.error_details or {}).get("strikes", 0) if task.completed_at is None else 0,
        late=bool(found.body and found.body.late),
        callback=callback.state if callback else "NONE",
        callback_tries=callback.attempts if callback else 0,
        callback_due=callback.due_at if callback and callback.state == CallbackState.PENDING else None,
        callback_error=callback.last_error if callback else None,
    )


def _worst(attempts: list[Attempt]) -> str | None:
    """What is to be feared of all ended attempts together: one that may have run outweighs those never sent."""
    seen = {attempt.certainty for attempt in attempts if attempt.outcome}
    return next((one for one in (Certainty.MAYBE_RAN, Certainty.RAN, Certainty.NOT_SENT) if one in seen), None)


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "cause": {"en": summary.cause.en, "zh": summary.cause.zh},
        "side": summary.side,
        "next": summary.next.en,
        "nextText": {"en": summary.next.en, "zh": summary.next.zh},
        "nextAt": rfc3339(summary.next_at),
        "actions": list(summary.actions),
    }


def _event(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": rfc3339(event.at),
        "event": event.event,
        "fromState": event.from_state,
        "toState": event.to_state,
        "attempt": event.attempt,
        "agentId": event.agent_id,
        "instanceId": event.instance_id,
        "node": event.node,
        "elapsedMs": event.elapsed_ms,
        "detail": event.detail,
    }


def _decision(decision: dict[str, Any]) -> dict[str, Any]:
    return {
        **decision,
        "strategy": decision.get("strategy"),
        "chosen": decision.get("chosen"),
        "candidates": decision.get("candidates") or [],
        "tookMs": decision.get("tookMs"),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "attemptKey": str(attempt.key),
        "agentId": attempt.agent_id,
        "instanceId": attempt.instance_id,
        "capability": attempt.capability,
        "channel": attempt.channel,
        "certainty": attempt.certainty,
        "outcome": attempt.outcome,
        "code": attempt.code,
        "message": attempt.message,
        "sentAt": rfc3339(attempt.sent_at),
        "receivedAt": rfc3339(attempt.received_at),
        "deadlineAt": rfc3339(attempt.deadline_at),
        "endedAt": rfc3339(attempt.ended_at),
    }


def _callback(callback: Callback, *, newest: bool) -> dict[str, Any]:
    """One message to the caller; of several only the newest is still delivered, whatever the older ones' rows say."""
    pending = callback.state == CallbackState.PENDING
    return {
        "webhookId": f"msg_{callback.id.hex}",
        "state": CallbackState.SUPERSEDED.value if pending and not newest else callback.state,
        "attempts": callback.attempts,
        "createdAt": rfc3339(callback.created_at),
        "endedAt": rfc3339(callback.ended_at),
        "nextAttemptAt": rfc3339(callback.due_at) if pending and newest else None,
        "lastError": callback.last_error,
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "webhookId": f"msg_{delivery.callback_id.hex}",
        "attempt": delivery.number,
        "at": rfc3339(delivery.at),
        "status": delivery.status,
        "error": delivery.error,
        "tookMs": delivery.took_ms,
        "nextAt": rfc3339(delivery.next_at),
    }


def _degraded_by(body: TaskBody | None) -> dict[str, Any] | None:
    result = msgspec.json.decode(bytes(body.result)) if body and body.result else None
    if not isinstance(result, dict) or not result.get("degraded"):
        return None
    by = result.get("degradedBy")
    return by if isinstance(by, dict) else {}


def _given(**conditions: str | None) -> dict[str, str]:
    return {name: value for name, value in conditions.items() if value is not None}


def _same_partition(task_id: uuid.UUID) -> dict[str, uuid.UUID]:
    """A callback's id carries its task's milliseconds, which spares the look into the other partitions."""
    low = task_id.int >> 80 << 80
    return {"id__gte": uuid.UUID(int=low), "id__lte": uuid.UUID(int=low | (1 << 80) - 1)}

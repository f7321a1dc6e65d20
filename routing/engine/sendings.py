"""What goes out for a choice: the attempt that will be on record, and the task's bytes that go with it."""

import datetime as dt
import uuid

from django.conf import settings

from common import clock
from registry import attempt_tokens
from routing.channels.base import Sending
from routing.choice import Choice
from routing.engine.request import Request, timeout_ms
from routing.trip import Claimed, Dispatch

_MILLISECOND = dt.timedelta(milliseconds=1)


def sending_of(
    task: Claimed, request: Request, choice: Choice, channel: str, *, took_ms: float, discovery_ms: int = 0
) -> Sending:
    """One attempt of the task at the chosen instance, as of now."""
    now = clock.now()
    attempt_key = uuid.uuid4()
    result_url, result_token = reporting(task.task_id, attempt_key)
    limit = dt.timedelta(milliseconds=timeout_ms(request, choice.candidate.agent.timeout_ms))
    timings = {"discoveryMs": discovery_ms, "routingMs": round(took_ms)}
    if task.attempts == 0:
        timings["queuedMs"] = max(0, (now - task.created_at) // _MILLISECOND)
    dispatch = Dispatch(
        task=task,
        attempt_key=attempt_key,
        agent_id=choice.instance.agent_id,
        instance_id=choice.instance.instance_id,
        capability=choice.candidate.capability.name,
        channel=channel,
        decision={**choice.decision, "tookMs": took_ms},
        deadline_at=min(now + limit, task.deadline_at),
        routed_at=now,
        sent_at=now,
        timings=timings,
    )
    return Sending(
        dispatch=dispatch,
        agent=choice.candidate.agent,
        capability=choice.candidate.capability,
        instance=choice.instance,
        payload=bytes(request.payload),
        metadata=bytes(request.metadata) or None,
        result_url=result_url,
        result_token=result_token,
    )


def reporting(task_id: uuid.UUID, attempt_key: uuid.UUID) -> tuple[str, str]:
    """Where the agent may report on the attempt, and the token that lets it."""
    url = f"{settings.REACH_PUBLIC_URL}/v1/tasks/{task_id}/result"
    return url, attempt_tokens.issue(task_id, str(attempt_key))

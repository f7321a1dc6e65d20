"""What a channel is given and what it must say."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from common.encoding import clean_text
from routing.snapshot.model import AgentView, CapabilityView, InstanceView
from routing.states import Certainty, TaskError
from routing.trip import Dispatch, Outcome

MESSAGE_LIMIT = 1000
RECEIPT, PROGRESS, LATE = "receipt", "progress", "late"  # kinds of reports; a late one is a result after its time


@dataclass(frozen=True, slots=True)
class Sending:
    """One attempt on its way: who gets it, and the task's bytes as the caller sent them."""

    dispatch: Dispatch
    agent: AgentView
    capability: CapabilityView
    instance: InstanceView
    payload: bytes
    metadata: bytes | None
    result_url: str
    result_token: str
    relay: Callable[[list[bytes]], None] | None = None  # takes the chunks of a streamed answer as they come
    report: Callable[[str, bytes], None] | None = None  # takes what an agent reports on the way: (kind, body as JSON)


class Channel(Protocol):
    """Sends an attempt once and says how it went; raises nothing."""

    async def send(self, sending: Sending) -> Outcome: ...


def failed(
    code: TaskError,
    certainty: Certainty,
    at: dt.datetime,
    message: str,
    *,
    retryable: bool | None = None,
    retry_after_ms: int | None = None,
    details: dict[str, Any] | None = None,
) -> Outcome:
    """An outcome without a result; the message is made fit for rows and pages."""
    return Outcome(
        "FAILED",
        certainty,
        at,
        code=code,
        message=clean_text(message, MESSAGE_LIMIT),
        retryable=retryable,
        retry_after_ms=retry_after_ms,
        details=details,
    )

"""Task states: the page that support staff are taught from (drawn in ARCHITECTURE.md).

Every move is one conditional UPDATE with its event in the same transaction; the first final state wins.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _


class TaskState(models.TextChoices):
    RECEIVED = "RECEIVED", _("received")  # durable, waiting for a worker, an agent or its time
    ROUTED = "ROUTED", _("routed")  # an instance was chosen
    DISPATCHED = "DISPATCHED", _("dispatched")  # the request may have left for the agent
    RUNNING = "RUNNING", _("running")  # the agent said that it has the task
    RETRY_WAIT = "RETRY_WAIT", _("waiting to retry")  # an attempt failed; the next one has its time
    SUCCEEDED = "SUCCEEDED", _("succeeded")
    FAILED = "FAILED", _("failed")
    TIMEOUT = "TIMEOUT", _("timed out")  # the last cause was time: attempt, budget, TTL, or nobody available
    CANCELLED = "CANCELLED", _("cancelled")


FINAL = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.TIMEOUT, TaskState.CANCELLED})
OPEN = frozenset(TaskState.values) - FINAL

_ENDS = frozenset({TaskState.FAILED, TaskState.TIMEOUT, TaskState.CANCELLED})

MOVES: dict[str | None, frozenset[str]] = {
    None: frozenset({TaskState.RECEIVED}),
    TaskState.RECEIVED: frozenset({TaskState.ROUTED, TaskState.SUCCEEDED}) | _ENDS,  # SUCCEEDED: by a fallback
    TaskState.ROUTED: frozenset({TaskState.DISPATCHED, TaskState.RETRY_WAIT}) | _ENDS,
    TaskState.DISPATCHED: frozenset({TaskState.RUNNING, TaskState.RETRY_WAIT, TaskState.SUCCEEDED}) | _ENDS,
    TaskState.RUNNING: frozenset({TaskState.RETRY_WAIT, TaskState.SUCCEEDED}) | _ENDS,
    TaskState.RETRY_WAIT: frozenset({TaskState.ROUTED, TaskState.SUCCEEDED}) | _ENDS,
    TaskState.SUCCEEDED: frozenset(),
    # only a person's "retry" leaves these
    TaskState.FAILED: frozenset({TaskState.RECEIVED}),
    TaskState.TIMEOUT: frozenset({TaskState.RECEIVED}),
    TaskState.CANCELLED: frozenset({TaskState.RECEIVED}),
}


def may_move(old: str | None, new: str) -> bool:
    """Whether a task may go from `old` (None = not yet there) to `new`."""
    return new in MOVES[old]


class Certainty(models.TextChoices):
    """What is known of an attempt's effect on the agent."""

    NOT_SENT = "NOT_SENT", _("not sent")  # provably never reached the agent: always safe to retry
    MAYBE_RAN = "MAYBE_RAN", _("may have run")  # sent, no answer: retry only where a second run does no harm
    RAN = "RAN", _("ran")  # the agent answered


class TaskError(models.TextChoices):
    """Why a task failed: the closed list of the contract."""

    TIMEOUT = "TIMEOUT", _("the agent did not finish in time")
    EXPIRED = "EXPIRED", _("its time to live ran out")
    NO_INSTANCE = "NO_INSTANCE", _("no instance could take it")
    BUDGET_BELOW_SLA = "BUDGET_BELOW_SLA", _("less time left than the agent needs")
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE", _("the agent was busy or unavailable")
    INTERNAL_ERROR = "INTERNAL_ERROR", _("the agent had an internal error")
    UNREACHABLE = "UNREACHABLE", _("the agent could not be reached")
    REJECTED = "REJECTED", _("the agent refused the request")
    BAD_RESPONSE = "BAD_RESPONSE", _("the agent's answer could not be understood")
    AGENT_FAILED = "AGENT_FAILED", _("the agent reported a failure")
    CANCELLED = "CANCELLED", _("it was cancelled")
    LOOP_DETECTED = "LOOP_DETECTED", _("it came back to an agent on its own path")
    BREAKER_OPEN = "BREAKER_OPEN", _("the breaker was open")
    MAYBE_RAN = "MAYBE_RAN", _("it may have run, and must not run twice")
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED", _("the cost budget was used up")

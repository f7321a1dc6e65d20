"""What the outcome of a call says of the instance that was called. Pure."""

from registry.health import RECEIVED
from registry.services.evidence import FAILED, NEUTRAL, OK
from routing.states import Certainty, TaskError
from routing.trip import Outcome

CONNECTION_LOST = "CONNECTION_LOST"  # it was there and broke off, unlike one that nobody reaches
VERDICTS = {OK: True, FAILED: False}  # as a breaker hears it; None where it says neither
_FAULTS = frozenset(
    {TaskError.TIMEOUT, TaskError.UNREACHABLE, TaskError.INTERNAL_ERROR, TaskError.BAD_RESPONSE}
)  # fmt: skip


def result_of(outcome: Outcome) -> str:
    """Whether the outcome speaks for the instance, against it, or (a bad request, a request to slow down) neither."""
    if outcome.kind in ("SUCCEEDED", "ACCEPTED"):
        return OK
    if outcome.code == TaskError.SERVICE_UNAVAILABLE:
        return NEUTRAL if outcome.retry_after_ms is not None else FAILED
    if outcome.code == TaskError.AGENT_FAILED:
        return FAILED if outcome.retryable else NEUTRAL
    return FAILED if outcome.code in _FAULTS else NEUTRAL


def verdict_of(outcome: Outcome) -> bool | None:
    """The same as a breaker hears it: well, badly, or neither."""
    return VERDICTS.get(result_of(outcome))


def code_of(outcome: Outcome) -> str:
    """The name of what went wrong; RECEIVED where the result is yet to come."""
    if outcome.kind == "ACCEPTED":
        return RECEIVED
    if outcome.code == TaskError.UNREACHABLE and outcome.certainty != Certainty.NOT_SENT:
        return CONNECTION_LOST
    return str(outcome.code or "")


def fits_of(outcome: Outcome, *, declared: bool) -> bool | None:
    """Whether the answer has the form that its agent `declared`; None where that says nothing."""
    if not declared:
        return None
    if outcome.kind == "SUCCEEDED":
        return True
    return False if outcome.code == TaskError.BAD_RESPONSE else None

"""What followed from an attempt becomes durable: one batch, one commit."""

from collections.abc import Sequence
from typing import Any

from routing.services import moves
from routing.services.moves import AttemptEnd, Ending, Match, Move
from routing.states import TaskError, TaskState
from routing.trip import Degrade, GiveUp, Outcome, Retry, Settled, Settlement, Substitute, Succeed

LOST = ("LOST", "UNACKNOWLEDGED")
FALLBACK = "FALLBACK"  # the event of a task that goes on to a substitute

_BY_CODE: dict[TaskError | None, str] = {TaskError.TIMEOUT: "TIMEOUT", TaskError.CANCELLED: "CANCELLED"}


def settle(
    settlements: Sequence[Settlement], node: str | None = None, *, lease_callbacks: bool = False
) -> list[Settled]:
    """Close the attempts and move the tasks; a settlement that somebody else was faster than changes nothing.

    With `lease_callbacks` the callbacks' first deliveries are the caller's, who finds them in `Settled.callbacks`.
    """
    return moves.apply([move_of(one) for one in settlements], node=node, lease_callbacks=lease_callbacks)


def move_of(one: Settlement) -> Move:
    """The move that a settlement asks for."""
    given: dict[str, Any] = {
        "task_id": one.task_id,
        "at": one.now,
        "match": Match.WORKER if one.worker else Match.KEY,
        "number": one.number,
        "worker": one.worker,
        "attempt_key": None if one.worker else one.attempt_key,
        "attempt": attempt_end(one.outcome) if one.outcome and one.number else None,
        "timings": one.outcome.timings if one.outcome else None,
    }
    decision = one.decision
    if isinstance(decision, Retry):
        return Move(**given, state=TaskState.RETRY_WAIT, due_at=decision.at, detail=_why(one.outcome, decision))
    if isinstance(decision, GiveUp):
        error = Ending(decision.code, decision.message, decision.retryable, decision.details)
        return Move(**given, state=decision.state, error=error)
    if isinstance(decision, Substitute):
        return Move(**given, state=TaskState.RETRY_WAIT, due_at=one.now, event=FALLBACK, detail=decision.detail)
    if isinstance(decision, Degrade):
        result = (decision.data, None, None, decision.by)
        return Move(**given, state=TaskState.SUCCEEDED, result=result, detail=decision.detail)
    if not isinstance(decision, Succeed) or one.outcome is None:
        raise TypeError("a success needs its outcome")
    outcome = one.outcome
    return Move(
        **given,
        state=TaskState.SUCCEEDED,
        result=(outcome.data, outcome.usage, outcome.cost, None),
        detail=outcome.details,
    )


def attempt_end(outcome: Outcome) -> AttemptEnd:
    """How the attempt's row reads after this outcome."""
    ended = "SUCCEEDED" if outcome.kind == "SUCCEEDED" else _BY_CODE.get(outcome.code, "FAILED")
    return AttemptEnd(
        outcome="LOST" if outcome.kind in LOST else ended,
        certainty=outcome.certainty,
        code=outcome.code,
        message=outcome.message or None,
        received_at=outcome.received_at,
    )


def _why(outcome: Outcome | None, decision: Retry) -> dict[str, Any]:
    message = moves.clean(outcome.message) if outcome else None
    return {"reason": decision.reason, "message": message, "dueAt": decision.at}

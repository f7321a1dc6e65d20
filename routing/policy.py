"""What follows from an attempt's outcome: a value, computed without ORM, clock or socket.

SUCCEEDED → Succeed; ACCEPTED → Await; FAILED → Retry, unless the error is not retryable, a second run could do harm,
no attempt is left, or the next one would begin after the deadline: then GiveUp with the last cause. A call that was
cut short because the task's own time was over ends it as EXPIRED (time to live) or TIMEOUT (budget).
"""

import datetime as dt
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from common.backoff import delay_ms
from routing.states import Certainty, TaskError, TaskState
from routing.trip import Await, Decision, GiveUp, Outcome, Retry, Succeed

LEAST_STRIKES = 3
GAVE_UP_MESSAGE = "Taking it up broke off {} times before it could be sent; the platform gave it up."
_EARLY = dt.timedelta(milliseconds=50)  # a timer and the clock need not agree to the millisecond
_TIME = frozenset({TaskError.TIMEOUT, TaskError.EXPIRED, TaskError.NO_INSTANCE, TaskError.BUDGET_BELOW_SLA})


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What a decision needs of the task and of the capability that ran it."""

    attempts: int  # used, the one that just ended included
    max_attempts: int
    deadline_at: dt.datetime
    expires_at: dt.datetime | None = None  # the end of the time to live; the deadline may be that or the budget's
    side_effects: bool = False
    idempotent: bool = False
    has_lookup: bool = False  # the agent is asked before another attempt


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """How a route retries: waits and jitter in milliseconds, or jitter as a share; codes that are worth a retry."""

    backoff_ms: tuple[int, ...]
    jitter_ms: int
    jitter_share: float | None
    retryable: frozenset[str]


def decide(
    outcome: Outcome, task: TaskFacts, route: RouteFacts, now: dt.datetime, rand: Callable[[], float] = random.random
) -> Decision:
    """What happens to the task after `outcome`; `rand` gives numbers in [0, 1) for the jitter."""
    if outcome.kind == "SUCCEEDED":
        return Succeed()
    if outcome.kind == "ACCEPTED":
        return Await()
    code = outcome.code or TaskError.AGENT_FAILED
    worth_it = outcome.retryable if outcome.retryable is not None else code in route.retryable
    if now >= task.deadline_at - _EARLY and _is_cut_short(outcome, code):
        return _give_up(outcome, _last_bell(task), worth_it)
    if not worth_it or task.attempts >= task.max_attempts:
        return _give_up(outcome, code, worth_it)
    if not _may_run_again(outcome, task):
        return _give_up_unsure(outcome, code)
    at = now + _wait(outcome, task.attempts, route, rand)
    return Retry(at, code) if at < task.deadline_at else _give_up(outcome, code, worth_it)


def attempts_of(attempts: int, most: int, fallback: Mapping[str, Any] | None, routes_most: int) -> tuple[int, int]:
    """(attempts used, attempts allowed). A substitute's are counted from its own first on, and its route's limit holds
    beside the task's."""
    return (attempts - int(fallback["since"]), min(most, routes_most)) if fallback else (attempts, most)


def is_hopeless(strikes: int, max_attempts: int) -> bool:
    """Whether a task that was taken up in vain so often is given up.

    A process may die while it holds a task that did it no harm: whatever the attempts allowed, twice is forgiven.
    """
    return strikes >= max(max_attempts, LEAST_STRIKES)


def end_state(code: TaskError) -> TaskState:
    """The final state that an error code leads to: TIMEOUT where the cause is time."""
    if code == TaskError.CANCELLED:
        return TaskState.CANCELLED
    return TaskState.TIMEOUT if code in _TIME else TaskState.FAILED


def _is_cut_short(outcome: Outcome, code: TaskError) -> bool:
    """Whether more time might have helped: no answer came, or not yet a connection."""
    return code == TaskError.TIMEOUT or (code == TaskError.UNREACHABLE and outcome.certainty != Certainty.RAN)


def _last_bell(task: TaskFacts) -> TaskError:
    """Which of a task's times its deadline was."""
    is_ttl = task.expires_at is not None and task.expires_at <= task.deadline_at
    return TaskError.EXPIRED if is_ttl else TaskError.TIMEOUT


def _may_run_again(outcome: Outcome, task: TaskFacts) -> bool:
    """Whether a second run does no harm. An agent that says "retryable" itself knows best."""
    harmless = not task.side_effects or task.idempotent or task.has_lookup
    return harmless or outcome.certainty == Certainty.NOT_SENT or outcome.retryable is True


def _wait(outcome: Outcome, attempts: int, route: RouteFacts, rand: Callable[[], float]) -> dt.timedelta:
    backoff = delay_ms(attempts, route.backoff_ms, route.jitter_ms, route.jitter_share, rand)
    return dt.timedelta(milliseconds=max(backoff, outcome.retry_after_ms or 0))


def _give_up(outcome: Outcome, code: TaskError, retryable: bool) -> GiveUp:
    return GiveUp(end_state(code), code, outcome.message, retryable, outcome.details)


def _give_up_unsure(outcome: Outcome, code: TaskError) -> GiveUp:
    """A retry would help but must not be: the agent has side effects and cannot tell a repetition."""
    if outcome.certainty == Certainty.RAN:
        return _give_up(outcome, code, retryable=False)
    message = f"It may have run and must not run twice: {outcome.message}"
    return GiveUp(end_state(code), TaskError.MAYBE_RAN, message, False, {**(outcome.details or {}), "cause": code})

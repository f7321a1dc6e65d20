"""A journey in three sentences: cause, whose side, what happens next; pure, from facts."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from insight import causes
from insight.causes import CALLBACKS, CERTAINTIES, ERRORS, NEXT, OPEN_STATES, Explanation, Text
from routing.states import FINAL, OPEN, TaskError, TaskState


@dataclass(frozen=True, slots=True)
class Facts:
    """What the summary depends on; times are aware, `callback` is NONE, PENDING, DELIVERED or DEAD."""

    state: str
    code: str | None = None
    agent: str | None = None
    certainty: str | None = None  # of all ended attempts together, the worst
    last_code: str | None = None  # of the last attempt
    attempts: int = 0
    max_attempts: int = 1
    due_at: dt.datetime | None = None
    attempt_deadline: dt.datetime | None = None
    not_before: dt.datetime | None = None
    waits_for: str | None = None
    degraded_by: dict[str, Any] | None = None
    late: bool = False
    strikes: int = 0  # of a task that was given up for them
    callback: str = "NONE"
    callback_tries: int = 0
    callback_due: dt.datetime | None = None
    callback_error: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """`side` is caller, agent, platform, receiver, or None when nothing is wrong and nobody is waited for."""

    cause: Text
    side: str | None
    next: Text
    next_at: dt.datetime | None = None
    actions: tuple[str, ...] = field(default=())  # cancel, retry, redeliver: those that are safe now


def summarise(facts: Facts, now: dt.datetime) -> Summary:
    """The summary of a task; every state, code and callback state has its words."""
    cause, side = _cause(facts, now)
    following, at = _next(facts, now)
    return Summary(cause, side, following, at, _actions(facts))


def _fill(text: Text, agent: str | None) -> Text:
    name = Text(agent, agent) if agent else causes.THE_AGENT
    english = text.en.format(agent=name.en)
    return Text(english[:1].upper() + english[1:] if not agent else english, text.zh.format(agent=name.zh))


def _cause(facts: Facts, now: dt.datetime) -> tuple[Text, str | None]:
    if facts.state in OPEN:
        return _open_cause(facts, now)
    if facts.state == TaskState.SUCCEEDED:
        text, side = causes.SUCCEEDED.text, causes.SUCCEEDED.side
        if facts.degraded_by is not None:
            text += causes.degraded(facts.degraded_by)
    else:
        text, side = _error(facts.code or TaskError.INTERNAL_ERROR, facts)
        if facts.late:
            text += causes.LATE
    told = _callback(facts)
    return text + told.text, side or told.side


def _open_cause(facts: Facts, now: dt.datetime) -> tuple[Text, str | None]:
    if facts.state == TaskState.RETRY_WAIT and facts.last_code:
        text, side = _error(facts.last_code, facts)
        if facts.waits_for:
            return text + _nobody_free(facts.waits_for), causes.NOBODY_FREE.side
        return text + OPEN_STATES[TaskState.RETRY_WAIT].text, side
    if facts.state == TaskState.RECEIVED and facts.not_before and facts.not_before > now:
        return causes.SCHEDULED.text, causes.SCHEDULED.side
    if facts.state in (TaskState.RECEIVED, TaskState.RETRY_WAIT) and facts.waits_for:
        return _nobody_free(facts.waits_for), causes.NOBODY_FREE.side
    found = OPEN_STATES[facts.state]
    return _fill(found.text, facts.agent), found.side


def _nobody_free(reasons: str) -> Text:
    why, words = causes.reason_words(reasons), causes.NOBODY_FREE.text
    return Text(words.en.format(reason=why.en), words.zh.format(reason=why.zh))


def _error(code: str, facts: Facts) -> tuple[Text, str | None]:
    found = ERRORS[code]
    if facts.strikes and code == TaskError.INTERNAL_ERROR:
        return causes.BROKE_OFF.text, causes.BROKE_OFF.side
    text = _fill(found.text, facts.agent)
    # the code MAYBE_RAN says it already, and who cancelled or ran out of money has no use for it
    silent = code in (TaskError.MAYBE_RAN, TaskError.BUDGET_EXHAUSTED, TaskError.LOOP_DETECTED)
    return (text if silent or not facts.certainty else text + CERTAINTIES[facts.certainty]), found.side


def _callback(facts: Facts) -> Explanation:
    if facts.callback == "PENDING" and facts.callback_tries:
        found = causes.CALLBACK_REFUSED
    else:
        found = CALLBACKS[facts.callback]
    return Explanation(found.text.format(error=facts.callback_error or "?"), found.side)


def _next(facts: Facts, now: dt.datetime) -> tuple[Text, dt.datetime | None]:
    if facts.state in FINAL:
        if facts.callback == "PENDING":
            return NEXT["deliver"].format(number=facts.callback_tries + 1), facts.callback_due
        return NEXT["nothing"], None
    if facts.state in (TaskState.DISPATCHED, TaskState.RUNNING):
        return _fill(NEXT["answer"], facts.agent), facts.attempt_deadline
    if facts.state == TaskState.RETRY_WAIT and not facts.waits_for:
        return NEXT["retry"].format(number=facts.attempts + 1, allowed=facts.max_attempts), facts.due_at
    if facts.not_before and facts.not_before > now:
        return NEXT["start"], facts.not_before
    return (NEXT["look"], facts.due_at) if facts.waits_for else (NEXT["claim"], facts.due_at)


def _actions(facts: Facts) -> tuple[str, ...]:
    if facts.state in OPEN:
        return ("cancel",)
    actions = []
    if facts.state != TaskState.SUCCEEDED and facts.code != TaskError.MAYBE_RAN:
        actions.append("retry")
    if facts.callback in ("DELIVERED", "DEAD"):
        actions.append("redeliver")
    return tuple(actions)

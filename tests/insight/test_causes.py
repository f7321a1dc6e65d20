"""The plain words are complete: whatever a task can be, both languages say it."""

import datetime as dt
import inspect
import itertools
import re

import pytest

from callbacks.models import CallbackState
from insight import causes
from insight.summary import Facts, summarise
from routing import filters
from routing.states import FINAL, OPEN, Certainty, TaskError, TaskState

NOW = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
CHINESE = re.compile("[\u4e00-\u9fff]")


def test_every_error_code_has_its_words():
    assert set(causes.ERRORS) == set(TaskError.values)


def test_every_open_state_has_its_words():
    assert set(causes.OPEN_STATES) == set(OPEN)


def test_every_certainty_has_its_words():
    assert set(causes.CERTAINTIES) == set(Certainty.values)


def test_every_callback_state_has_its_words():
    assert set(causes.CALLBACKS) == {"NONE", *CallbackState.values}


@pytest.mark.parametrize("code", TaskError.values)
def test_an_error_lies_on_one_of_the_four_sides(code):
    assert causes.ERRORS[code].side in causes.SIDES


COMBINATIONS = [
    Facts(state=state, code=code, certainty=certainty, last_code=code, agent=agent, callback=callback)
    for state, certainty, agent, callback in itertools.product(
        TaskState.values, [None, *Certainty.values], [None, "echo"], ["NONE", *CallbackState.values]
    )
    for code in ([None, *TaskError.values] if state != TaskState.SUCCEEDED else [None])
]


def test_every_combination_reads_as_whole_sentences_in_both_languages():
    for facts in COMBINATIONS:
        summary = summarise(facts, NOW)
        for text in (summary.cause, summary.next):
            assert re.fullmatch(r"[A-Za-z].*[.]", text.en), (facts, text)
            assert CHINESE.search(text.zh), (facts, text)
            assert "{" not in text.en + text.zh, (facts, text)
            assert text.zh.endswith("。"), (facts, text)


def test_only_a_plain_success_is_on_nobodys_side():
    for facts in COMBINATIONS:
        fine = facts.state == TaskState.SUCCEEDED and facts.callback in ("NONE", "DELIVERED", "SUPERSEDED")
        assert (summarise(facts, NOW).side is None) == fine, facts


def test_an_open_task_can_be_cancelled_and_nothing_else():
    for facts in COMBINATIONS:
        if facts.state in OPEN:
            assert summarise(facts, NOW).actions == ("cancel",)


def test_an_ended_task_that_may_have_run_is_not_offered_for_a_retry():
    facts = Facts(state=TaskState.FAILED, code=TaskError.MAYBE_RAN, certainty=Certainty.MAYBE_RAN)
    assert "retry" not in summarise(facts, NOW).actions


@pytest.mark.parametrize("callback", ["DELIVERED", "DEAD"])
def test_a_told_or_dead_callback_can_be_told_again(callback):
    assert "redeliver" in summarise(Facts(state=TaskState.SUCCEEDED, callback=callback), NOW).actions


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_pending_callback_cannot_be_redelivered(state):
    assert "redeliver" not in summarise(Facts(state=state, callback="PENDING"), NOW).actions


def test_a_refused_callback_is_the_receivers_side_even_after_a_success():
    facts = Facts(
        state=TaskState.SUCCEEDED,
        callback="PENDING",
        callback_tries=2,
        callback_error="HTTP 500",
        callback_due=NOW + dt.timedelta(minutes=1),
    )
    summary = summarise(facts, NOW)
    assert (summary.side, summary.next_at) == ("receiver", NOW + dt.timedelta(minutes=1))
    assert "HTTP 500" in summary.cause.en
    assert "HTTP 500" in summary.cause.zh


def test_a_retry_that_waits_says_why_the_last_attempt_failed_and_when_the_next_begins():
    facts = Facts(
        state=TaskState.RETRY_WAIT,
        last_code=TaskError.UNREACHABLE,
        certainty=Certainty.NOT_SENT,
        agent="echo",
        attempts=1,
        max_attempts=3,
        due_at=NOW,
    )
    summary = summarise(facts, NOW)
    assert summary.cause.en == (
        "echo could not be reached at its address. The request never reached an agent. "
        "The last attempt failed and another one is scheduled."
    )
    assert summary.next.en == "Attempt 2 of 3 starts by itself."
    assert summary.next_at == NOW


def test_a_retry_that_nobody_can_take_says_why_and_promises_no_attempt():
    facts = Facts(
        state=TaskState.RETRY_WAIT, last_code=TaskError.UNREACHABLE, agent="echo", attempts=1, waits_for="OFFLINE"
    )
    summary = summarise(facts, NOW)
    assert summary.cause.en == (
        "echo could not be reached at its address. No instance can take it right now (it is offline), so it waits."
    )
    assert summary.cause.zh.endswith("目前没有实例能接收（已离线），任务在等待。")
    assert summary.next == causes.NEXT["look"]


def test_a_task_before_its_time_waits_for_the_caller():
    later = NOW + dt.timedelta(hours=1)
    summary = summarise(Facts(state=TaskState.RECEIVED, not_before=later), NOW)
    assert (summary.side, summary.next_at) == ("caller", later)


def test_braces_in_foreign_text_stay_text():
    facts = Facts(state=TaskState.SUCCEEDED, callback="DEAD", callback_error="{0.__class__} {x}")
    assert "{0.__class__} {x}" in summarise(facts, NOW).cause.en


def test_waiting_is_explained_in_words_and_unknown_reasons_stay_as_they_are():
    summary = summarise(Facts(state=TaskState.RECEIVED, waits_for="BUSY, NEW_ONE"), NOW)
    assert (
        summary.cause.en == "No instance can take it right now (it works on as much as it may, NEW_ONE), so it waits."
    )
    assert "已达到并发上限、NEW_ONE" in summary.cause.zh


def test_every_reason_of_the_filters_has_its_words():
    source = inspect.getsource(filters).partition("def rejection")[0].partition("class Seen")[2]
    codes = set(re.findall(r'"([A-Z][A-Z_]+)"', source)) | {"OFFLINE"} | filters.LASTING
    assert codes - set(causes.REASONS) == set()

"""Every row: what came, what is known of the task, what follows."""

import datetime as dt

import pytest

from routing.policy import RouteFacts, TaskFacts, decide, end_state
from routing.states import Certainty, TaskError, TaskState
from routing.trip import Await, GiveUp, Outcome, Retry, Succeed

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
ROUTE = RouteFacts((1000, 2000, 4000), 500, None, frozenset({"TIMEOUT", "SERVICE_UNAVAILABLE", "UNREACHABLE"}))
RAN, MAYBE_RAN, NOT_SENT = Certainty.RAN, Certainty.MAYBE_RAN, Certainty.NOT_SENT


def task(**given):
    return TaskFacts(**{"attempts": 1, "max_attempts": 3, "deadline_at": NOW + dt.timedelta(minutes=5), **given})


def failure(code="TIMEOUT", certainty=RAN, **given):
    return Outcome("FAILED", certainty, NOW, code=TaskError(code), message="why", **given)


def decided(outcome, facts=None, route=ROUTE, rand=0.0):
    return decide(outcome, facts or task(), route, NOW, lambda: rand)


def test_a_success_succeeds():
    assert decided(Outcome("SUCCEEDED", RAN, NOW, data=b"1")) == Succeed()


def test_an_accepted_task_is_awaited():
    assert decided(Outcome("ACCEPTED", RAN, NOW)) == Await()


@pytest.mark.parametrize(("attempts", "rand", "waited_ms"), [(1, 0.0, 1000), (2, 0.0, 2000), (1, 0.999, 1500)])
def test_a_retryable_failure_is_retried_after_the_backoff(attempts, rand, waited_ms):
    decision = decided(failure(), task(attempts=attempts), rand=rand)
    assert decision == Retry(NOW + dt.timedelta(milliseconds=waited_ms), "TIMEOUT")


@pytest.mark.parametrize("code", ["REJECTED", "BAD_RESPONSE", "AGENT_FAILED", "INTERNAL_ERROR"])
def test_codes_that_the_route_does_not_list_are_not_retried(code):
    decision = decided(failure(code))
    assert (decision.state, decision.code, decision.retryable) == (TaskState.FAILED, code, False)


def test_a_code_that_the_route_lists_is_retried():
    assert isinstance(decided(failure("REJECTED"), route=RouteFacts((), 0, None, frozenset({"REJECTED"}))), Retry)


def test_an_answer_that_says_retryable_is_obeyed():
    assert isinstance(decided(failure("AGENT_FAILED", retryable=True)), Retry)


def test_an_answer_that_says_not_retryable_is_obeyed():
    assert isinstance(decided(failure("SERVICE_UNAVAILABLE", retryable=False)), GiveUp)


def test_the_last_attempt_gives_up_with_its_cause():
    decision = decided(failure(), task(attempts=3))
    assert decision == GiveUp(TaskState.TIMEOUT, TaskError.TIMEOUT, "why", True, None)


@pytest.mark.parametrize(
    ("certainty", "said", "idempotent", "again"),
    [
        (NOT_SENT, None, False, True),
        (MAYBE_RAN, None, False, False),
        (MAYBE_RAN, None, True, True),
        (RAN, None, False, False),
        (RAN, None, True, True),
        (RAN, True, False, True),
    ],
)
def test_side_effects_are_never_repeated_blindly(certainty, said, idempotent, again):
    facts = task(side_effects=True, idempotent=idempotent)
    assert isinstance(decided(failure(certainty=certainty, retryable=said), facts), Retry) is again


def test_side_effects_may_be_repeated_where_the_agent_is_asked_first():
    facts = task(side_effects=True, has_lookup=True)
    assert isinstance(decided(failure(certainty=MAYBE_RAN), facts), Retry)


def test_giving_up_because_it_may_have_run_says_so_and_keeps_the_cause():
    decision = decided(failure(certainty=MAYBE_RAN), task(side_effects=True))
    assert (decision.state, decision.code) == (TaskState.TIMEOUT, TaskError.MAYBE_RAN)
    assert decision.details == {"cause": "TIMEOUT"}


def test_no_retry_starts_after_the_deadline():
    decision = decided(failure(), task(deadline_at=NOW + dt.timedelta(milliseconds=1000)))
    assert (decision.state, decision.code) == (TaskState.TIMEOUT, TaskError.TIMEOUT)


def test_a_retry_just_before_the_deadline_starts():
    assert isinstance(decided(failure(), task(deadline_at=NOW + dt.timedelta(milliseconds=1001))), Retry)


def test_retry_after_is_waited_for():
    decision = decided(failure("SERVICE_UNAVAILABLE", retry_after_ms=7000))
    assert decision.at == NOW + dt.timedelta(seconds=7)


def test_a_retry_after_shorter_than_the_backoff_changes_nothing():
    assert decided(failure(retry_after_ms=10)).at == NOW + dt.timedelta(seconds=1)


def test_a_retry_after_beyond_the_deadline_gives_up():
    decision = decided(failure("SERVICE_UNAVAILABLE", retry_after_ms=600_000))
    assert (decision.state, decision.code) == (TaskState.FAILED, TaskError.SERVICE_UNAVAILABLE)


def test_jitter_may_be_a_share_of_the_wait():
    route = RouteFacts((1000,), 500, 0.2, frozenset({"TIMEOUT"}))
    assert decided(failure(), route=route, rand=0.0).at == NOW + dt.timedelta(milliseconds=800)


@pytest.mark.parametrize("code", list(TaskError))
def test_the_state_is_timeout_exactly_when_the_cause_is_time(code):
    timely = {"TIMEOUT", "EXPIRED", "NO_INSTANCE", "BUDGET_BELOW_SLA"}
    expected = "TIMEOUT" if code in timely else "CANCELLED" if code == "CANCELLED" else "FAILED"
    assert end_state(code) == expected


LATE = {"attempts": 1, "deadline_at": NOW}


@pytest.mark.parametrize(
    ("given", "outcome", "code"),
    [
        ({"expires_at": NOW}, failure("TIMEOUT", MAYBE_RAN), "EXPIRED"),
        ({"expires_at": NOW}, failure("UNREACHABLE", NOT_SENT), "EXPIRED"),
        ({"expires_at": NOW + dt.timedelta(seconds=1)}, failure("TIMEOUT", MAYBE_RAN), "TIMEOUT"),
        ({"expires_at": NOW + dt.timedelta(seconds=1)}, failure("UNREACHABLE", NOT_SENT), "TIMEOUT"),
        ({}, failure("TIMEOUT", MAYBE_RAN), "TIMEOUT"),
        ({"expires_at": NOW, "attempts": 3}, failure("TIMEOUT", MAYBE_RAN), "EXPIRED"),
    ],
)
def test_a_call_that_the_tasks_own_time_cut_short_says_which_time(given, outcome, code):
    decision = decided(outcome, task(**{**LATE, **given}))
    assert (decision.state, decision.code) == (TaskState.TIMEOUT, code)


def test_what_an_agent_answered_in_the_end_stays_the_cause():
    decision = decided(failure("REJECTED"), task(deadline_at=NOW, expires_at=NOW))
    assert (decision.state, decision.code) == (TaskState.FAILED, "REJECTED")


def test_an_attempt_that_ran_out_of_its_own_time_is_a_timeout():
    facts = task(attempts=3, deadline_at=NOW + dt.timedelta(seconds=1), expires_at=NOW + dt.timedelta(seconds=1))
    assert decided(failure("TIMEOUT", MAYBE_RAN), facts).code == "TIMEOUT"

"""What holds for every circuit, whatever comes in whatever order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.breaker.rule import Circuit, Figures, Phase, Result, counted, is_barred, on_trial, phase

FIGURES = Figures(failure_share=0.5, min_volume=6, window_s=100.0, open_s=30.0, consecutive=3)
CALLS = st.lists(
    st.tuples(
        st.sampled_from([True, False, False, None]),  # how it went
        st.integers(0, 8),  # which task
        st.floats(0.0, 40.0),  # seconds since the one before
        st.floats(0.0, 60.0),  # how long it took
        st.sampled_from(["shop", "bank", "*"]),
        st.booleans(),  # whether its task asks to be on trial first
    ),
    max_size=40,
)


def histories(calls, figures=FIGURES):
    """(circuit before, the result, whether its task was let on trial just now, circuit after) of each."""
    circuit, now = Circuit(), 1000.0
    for ok, task, passed, took, whose, tries in calls:
        now += passed
        tried = on_trial(circuit, task + 1, now, now + 20) if tries and circuit.opened else None
        circuit = tried or circuit
        result = Result(task + 1, ok, now if tried else now - took, now, whose)
        after = counted(circuit, result, figures)
        yield circuit, result, tried is not None, after
        circuit = after


@settings(max_examples=200, deadline=None)
@given(calls=CALLS)
def test_only_a_success_on_trial_or_after_the_cool_down_closes_it(calls):
    for before, result, _, after in histories(calls):
        if before.opened and not after.opened:
            assert result.ok
            assert result.task == before.trial or (not before.trial and result.sent_at >= before.until)
            assert after.closed == result.at


@settings(max_examples=200, deadline=None)
@given(calls=CALLS)
def test_it_opens_by_failures_alone_and_for_the_whole_cool_down(calls):
    for before, result, _, after in histories(calls):
        if after.opened and after.opened != before.opened:
            assert result.ok is False
            assert (after.opened, after.until) == (result.at, result.at + FIGURES.open_s)
            assert phase(after, result.at) == Phase.OPEN


@settings(max_examples=200, deadline=None)
@given(calls=CALLS)
def test_whoever_is_on_trial_keeps_all_others_out_until_its_result_or_its_lease(calls):
    for before, result, is_trial, _ in histories(calls):
        if is_trial:
            assert before.trial == result.task
            assert is_barred(before, result.at)
            assert on_trial(before, 99, result.at, result.at + 20) is None
            assert on_trial(before, 99, before.trial_until, before.trial_until + 20) is not None


@settings(max_examples=100, deadline=None)
@given(calls=CALLS)
def test_refusals_never_open_it_nor_end_a_row(calls):
    refusals = [(None, *rest) for _, *rest in calls]
    assert all(not after.opened for _, _, _, after in histories(refusals))
    with_refusals = [one for call in calls for one in (call, (None, call[1], 0.0, *call[3:5], False))]
    runs = [after.run for before, result, _, after in histories(with_refusals) if result.ok is None]
    assert runs == [before.run for before, result, _, _ in histories(with_refusals) if result.ok is None]


@settings(max_examples=100, deadline=None)
@given(calls=CALLS, client=st.sampled_from(["shop", "bank"]))
def test_one_client_alone_never_opens_it(calls, client):
    alone = [(*call[:4], client, call[5]) for call in calls]
    assert all(not after.opened for _, _, _, after in histories(alone))

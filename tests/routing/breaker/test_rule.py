"""When a circuit opens, for whom, and what closes it again; times in seconds."""

import pytest

from routing.breaker.rule import ANYBODY, NEW, Figures, Phase, Result, counted, figures, is_barred, on_trial, phase

FIGURES = Figures()


def after(results, circuit=NEW, figures=FIGURES):
    for result in results:
        circuit = counted(circuit, result, figures)
    return circuit


def results(*oks, at=0.0, whose=ANYBODY, first=1, each=1.0):
    """One task each, one after the other."""
    return [Result(first + n, ok, at + n * each, at + n * each, whose) for n, ok in enumerate(oks)]


def opened(at=100.0, figures=FIGURES):
    """It opens at that time."""
    return after(results(False, False, False, at=at - 2), figures=figures)


def test_three_failures_in_a_row_open_it():
    assert phase(after(results(False, False)), 2) == Phase.CLOSED
    assert phase(after(results(False, False, False)), 2) == Phase.OPEN


def test_a_success_ends_the_row():
    assert not after(results(False, False, True, False, False)).opened


def test_refusals_neither_count_nor_end_the_row():
    assert after(results(False, None, False, None, None, False)).opened


def test_over_half_of_at_least_twenty_open_it():
    half = [True, False] * 10
    assert not after(results(*half)).opened
    assert not after(results(*half[:-2], False)).opened
    assert after(results(*half, False)).opened


def test_what_is_older_than_the_window_does_not_count():
    old = results(*[False, False, True] * 10, at=0.0, each=0.1)
    few = Figures(min_volume=1000)
    assert after(results(False, at=200.0, first=50), after(old[:-2], figures=few)).opened
    assert not after(results(False, at=400.0, first=50), after(old[:-2], figures=few)).opened


def test_failures_long_ago_are_in_no_row():
    assert not after([*results(False, False), *results(False, at=400.0, first=9)]).opened


def test_a_task_counts_once_however_often_it_is_retried():
    again = [Result(7, False, at, at) for at in (1.0, 2.0, 3.0, 4.0)]
    assert not after(again).opened
    assert after([*again, *results(False, False, at=5.0, first=8)]).opened


def test_a_success_after_a_failure_of_the_same_task_ends_the_row():
    circuit = after([*results(False, False), Result(2, True, 3.0, 3.0), *results(False, at=4.0, first=9)])
    assert (circuit.opened, circuit.run) == (0.0, 1)


def test_failures_of_one_client_alone_do_not_open_it():
    assert not after(results(*[False] * 30, whose="shop")).opened


def test_failures_of_two_clients_open_it():
    shop = results(False, False, False, whose="shop")
    assert after([*shop, *results(False, at=4.0, whose="crm", first=9)]).opened


def test_a_share_of_failures_that_is_one_clients_does_not_open_it():
    mixed = [Result(n, n % 3 == 0, n, n, "shop") for n in range(1, 60)]
    assert not after(mixed).opened
    assert after([*mixed, Result(99, False, 60, 60, "crm")]).opened


def test_the_cool_down_runs_from_the_opening():
    circuit = opened(at=100.0)
    late = after(results(False, False, at=110.0, first=20), circuit)
    assert [phase(late, at) for at in (100.0, 129.9, 130.0)] == [Phase.OPEN, Phase.OPEN, Phase.HALF_OPEN]


def test_half_open_lets_one_at_a_time_through():
    circuit = on_trial(opened(at=100.0), 7, 131.0, 150.0)
    assert is_barred(circuit, 140.0)
    assert on_trial(circuit, 8, 140.0, 160.0) is None


def test_who_is_on_trial_may_ask_again_and_nobody_is_during_the_next_cool_down():
    circuit = on_trial(opened(at=100.0), 7, 131.0, 150.0)
    assert on_trial(circuit, 7, 132.0, 151.0).trial_until == 151.0
    assert on_trial(after([Result(7, False, 131.0, 133.0)], circuit), 7, 134.0, 150.0) is None


def test_an_abandoned_trial_ends_with_its_lease():
    circuit = on_trial(opened(at=100.0), 7, 131.0, 150.0)
    assert on_trial(circuit, 8, 150.0, 160.0).trial == 8


def test_nobody_is_on_trial_during_the_cool_down():
    assert on_trial(opened(at=100.0), 7, 129.0, 150.0) is None


def test_a_trial_that_succeeds_closes_it():
    circuit = after([Result(7, True, 131.0, 132.0)], on_trial(opened(), 7, 131.0, 150.0))
    assert phase(circuit, 132.0) == Phase.CLOSED
    assert not is_barred(circuit, 132.0)


def test_a_trial_that_fails_opens_it_anew():
    circuit = after([Result(7, False, 131.0, 132.0)], on_trial(opened(), 7, 131.0, 150.0))
    assert [phase(circuit, at) for at in (161.9, 162.0)] == [Phase.OPEN, Phase.HALF_OPEN]
    assert not is_barred(circuit, 162.0)


def test_a_trial_that_is_refused_proves_nothing_and_the_next_may_try():
    circuit = after([Result(7, None, 131.0, 132.0)], on_trial(opened(), 7, 131.0, 150.0))
    assert phase(circuit, 132.0) == Phase.HALF_OPEN
    assert not is_barred(circuit, 132.0)


def test_a_late_success_from_before_the_opening_does_not_close_it():
    circuit = on_trial(opened(at=100.0), 7, 131.0, 150.0)
    assert after([Result(3, True, 90.0, 132.0)], circuit) == circuit


@pytest.mark.parametrize(("sent_at", "expected"), [(131.0, Phase.CLOSED), (129.0, Phase.HALF_OPEN)])
def test_what_was_fetched_after_the_cool_down_counts_without_a_trial(sent_at, expected):
    assert phase(after([Result(7, True, sent_at, 132.0)], opened()), 132.0) == expected


def test_late_failures_from_before_the_closing_do_not_open_it_again():
    closed = after([Result(7, True, 131.0, 132.0)], on_trial(opened(), 7, 131.0, 150.0))
    late = [Result(n, False, 95.0, 133.0) for n in (20, 21, 22)]
    assert after(late, closed) == closed


@pytest.mark.parametrize(
    ("given", "external", "expected"),
    [
        ({}, False, Figures(0.5, 20, 300.0, 30.0, 3)),
        ({}, True, Figures(0.5, 20, 300.0, 30.0, 5)),
        ({"consecutive": 2, "openMs": 500}, True, Figures(0.5, 20, 300.0, 0.5, 2)),
        ({"failureShare": 0.2, "minVolume": 4, "windowMs": 1000}, False, Figures(0.2, 4, 1.0, 30.0, 3)),
    ],
)
def test_a_routes_figures_win_over_the_defaults(given, external, expected):
    assert figures(given, external=external) == expected


def test_a_share_of_one_is_never_exceeded():
    never = Figures(1.0, 1_000_000, 300.0, 1.0, 1_000_000)
    assert not after(results(*[False] * 100), figures=never).opened

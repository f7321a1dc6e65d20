"""What is really done, against what the slots could do."""

import pytest

from routing.services.pace import KEPT_S, Pace, Tempo

SHORT, LONG = Pace(0.5, 0.6, done=30), Pace(60.0, 70.0, done=1)  # ten slots could do 100 short ones within the window


@pytest.fixture(autouse=True)
def _committed() -> None:
    """No database here."""


def full_for(seconds: int) -> Tempo:
    tempo = Tempo()
    for at in range(seconds + 1):
        tempo.seen(full=True, at=at)
    return tempo


def test_while_all_is_full_the_wait_follows_what_is_done() -> None:
    tempo = full_for(6)
    assert tempo.waits_s(20, 10, 0.5) == 1.0
    tempo.measure(SHORT, 10, 6)
    assert tempo.share == pytest.approx(0.3)
    assert tempo.waits_s(20, 10, 0.5) == pytest.approx(1 / 0.3)


@pytest.mark.parametrize("seconds", [0, 4])
def test_what_was_not_full_for_long_enough_says_nothing(seconds: int) -> None:
    tempo = full_for(seconds)
    tempo.measure(SHORT, 10, seconds)
    assert tempo.share == 1.0


def test_whoever_looked_away_does_not_know_whether_it_was_full() -> None:
    tempo = full_for(6)
    tempo.seen(full=True, at=20)
    tempo.measure(SHORT, 10, 20)
    assert tempo.share == 1.0


def test_an_empty_moment_begins_it_anew() -> None:
    tempo = full_for(6)
    tempo.seen(full=False, at=6.5)
    tempo.seen(full=True, at=7)
    tempo.measure(SHORT, 10, 7)
    assert tempo.share == 1.0


def test_runs_too_long_to_be_counted_in_the_window_are_taken_at_their_word() -> None:
    tempo = full_for(60)
    tempo.measure(LONG, 10, 60)
    assert tempo.share == 1.0


def test_nothing_done_at_all_is_no_endless_wait() -> None:
    tempo = full_for(6)
    tempo.measure(SHORT._replace(done=0), 10, 6)
    assert tempo.share == 0.05


def test_a_measurement_is_forgotten_after_a_while() -> None:
    tempo = full_for(6)
    tempo.measure(SHORT, 10, 6)
    tempo.seen(full=False, at=7)
    tempo.measure(SHORT, 10, 8)
    assert tempo.share == pytest.approx(0.3)
    tempo.measure(SHORT, 10, 7 + KEPT_S)
    assert tempo.share == 1.0

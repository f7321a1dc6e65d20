"""What is really done, against what the slots could do."""

import pytest

from routing.services.pace import KEPT_S, Pace, Tempo

SHORT, LONG = Pace(0.5, 0.6, done=36), Pace(60.0, 70.0, done=1)  # ten slots could do 120 short ones in six seconds


@pytest.fixture(autouse=True)
def _committed() -> None:
    """No database here."""


def full_for(seconds: int) -> Tempo:
    tempo = Tempo()
    for at in range(seconds + 1):
        tempo.seen(full=True, at=at)
    return tempo


def measured(tempo: Tempo, at: float, pace: Pace = SHORT) -> float:
    tempo.measure(pace, tempo.window_s(10, at), 10, at)
    return tempo.share


def test_while_all_is_full_the_wait_follows_what_is_done() -> None:
    tempo = full_for(6)
    assert tempo.waits_s(20, 10, 0.5) == 1.0
    assert measured(tempo, 6) == pytest.approx(0.3)
    assert tempo.waits_s(20, 10, 0.5) == pytest.approx(1 / 0.3)


@pytest.mark.parametrize("seconds", [0, 2])
def test_what_was_not_full_for_long_enough_says_nothing(seconds: int) -> None:
    assert measured(full_for(seconds), seconds) == 1.0


def test_whoever_looked_away_does_not_know_whether_it_was_full() -> None:
    tempo = full_for(6)
    tempo.seen(full=True, at=20)
    assert measured(tempo, 20) == 1.0


def test_an_empty_moment_begins_it_anew() -> None:
    tempo = full_for(6)
    tempo.seen(full=False, at=6.5)
    tempo.seen(full=True, at=7)
    assert measured(tempo, 7) == 1.0


def test_runs_too_long_to_be_counted_are_taken_at_their_word() -> None:
    assert measured(full_for(60), 60, LONG) == 1.0


def test_no_more_is_counted_than_is_looked_at() -> None:
    tempo = full_for(60)
    assert tempo.window_s(10, 60) == 10
    tempo.pace = SHORT
    assert tempo.window_s(100, 60) == 2.5


def test_nothing_done_at_all_is_no_endless_wait() -> None:
    assert measured(full_for(6), 6, SHORT._replace(done=0)) == 0.05


def test_a_measurement_is_forgotten_after_a_while() -> None:
    tempo = full_for(6)
    measured(tempo, 6)
    tempo.seen(full=False, at=7)
    assert measured(tempo, 8) == pytest.approx(0.3)
    assert measured(tempo, 7 + KEPT_S) == 1.0

"""The schedule as a table."""

import datetime as dt

import pytest

from callbacks.policy import Again, Dead, Done, next_step

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def wait(series: int, schedule: str = "standard", asked: int | None = None, rand: float = 0.5) -> float:
    step = next_step(500, "500", series, schedule, retry_after_s=asked, now=NOW, rand=lambda: rand)
    assert isinstance(step, Again)
    return (step.at - NOW).total_seconds()


def test_the_standard_steps_are_counted_from_each_failure() -> None:
    assert [wait(series) for series in range(1, 6)] == [30, 60, 120, 300, 600]


def test_the_long_schedule_goes_on_for_more_than_a_day() -> None:
    assert [wait(series, "long") for series in range(6, 11)] == [1800, 7200, 18_000, 36_000, 36_000]
    assert next_step(500, "x", 11, "long", retry_after_s=None, now=NOW) == Dead("x")


def test_after_the_last_step_it_is_dead() -> None:
    assert next_step(None, "refused", 6, "standard", retry_after_s=None, now=NOW) == Dead("refused")


@pytest.mark.parametrize(("rand", "seconds"), [(0.0, 27), (0.5, 30), (1.0, 33)])
def test_jitter_is_ten_percent_either_way(rand: float, seconds: int) -> None:
    assert wait(1, rand=rand) == pytest.approx(seconds)


@pytest.mark.parametrize(("asked", "seconds"), [(10, 30), (90, 90), (999_999, 3600), (0, 30), (-5, 30)])
def test_never_earlier_than_asked_and_at_most_an_hour(asked: int, seconds: int) -> None:
    assert wait(1, asked=asked) == seconds


def test_delivered_is_done_and_gone_is_dead() -> None:
    assert next_step(204, None, 1, "standard", retry_after_s=None, now=NOW) == Done()
    assert next_step(410, "gone", 1, "standard", retry_after_s=None, now=NOW) == Dead("gone")
    assert next_step(None, "BLOCKED", 1, "standard", retry_after_s=None, now=NOW, permanent=True) == Dead("BLOCKED")

"""How long to wait: a table, and what holds for every number."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.backoff import RETRY_AFTER_CAP, delay_ms, retry_after

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(("attempt", "least"), [(1, 1000), (2, 2000), (3, 4000), (4, 4000), (99, 4000)])
def test_the_steps_come_in_turn_and_the_last_repeats(attempt, least):
    assert delay_ms(attempt, [1000, 2000, 4000], rand=lambda: 0.0) == least
    assert delay_ms(attempt, [1000, 2000, 4000], rand=lambda: 0.999999) == least + 500


@pytest.mark.parametrize(("rand", "wait"), [(0.0, 800), (0.5, 1000), (0.999999, 1200)])
def test_a_share_spreads_to_both_sides(rand, wait):
    assert delay_ms(1, [1000], jitter_share=0.2, rand=lambda: rand) == wait


def test_no_steps_is_no_wait():
    assert delay_ms(1, [], jitter_ms=0) == 0


@given(st.integers(-5, 10**6), st.lists(st.integers(0, 10**9), min_size=1, max_size=8), st.integers(0, 10**6))
def test_jitter_stays_in_its_bounds(attempt, steps, jitter):
    wait = delay_ms(attempt, steps, jitter)
    assert any(step <= wait <= step + jitter for step in steps)


@given(st.integers(1, 10), st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.floats(0, 1))
def test_a_shared_jitter_stays_in_its_bounds(attempt, steps, share):
    assert 0 <= delay_ms(attempt, steps, jitter_share=share) <= 2 * max(steps) + 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("3", 3),
        (" 7 ", 7),
        ("007", 7),
        ("9999999999", 3600),
        ("99999999999999999999", 3600),
        ("9" * 5000, 3600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Fri, 02 Jan 2026 03:04:15 GMT", 10),
        ("Friday, 02-Jan-26 03:04:15 GMT", 10),
        ("Fri, 01 Jan 9999 00:00:00 GMT", 3600),
        ("-5", None),
        ("1.5", None),
        ("120junk", None),
        ("²", None),
        ("١", None),
        ("", None),
        ("abc", None),
        ("+3", None),
        ("1e3", None),
        ("Fri, 02 Jan 2026 03:04:15", None),
        ("Fri, 02 Jan 2026 03:04:15 CET", None),
        ("Fri, 99 Jan 2026 03:04:15 GMT", None),
        ("nan", None),
        ("Fri, 02 Jax 2026 03:04:15 GMT", None),
        ("3, 4", None),
    ],
)
def test_retry_after_is_honoured_only_when_it_makes_sense(value, seconds):
    """Case 13."""
    assert retry_after([value], NOW) == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(("values", "seconds"), [([], None), (["3", "4"], None), (["3", "3"], 3)])
def test_several_values_count_only_when_they_agree(values, seconds):
    """Case 13."""
    assert retry_after(values, NOW) == (None if seconds is None else timedelta(seconds=seconds))


@given(st.lists(st.text(max_size=40) | st.integers().map(str), max_size=3))
def test_nothing_that_a_header_can_hold_raises(values):
    """Case 13."""
    wait = retry_after(values, NOW)
    assert wait is None or timedelta(0) <= wait <= RETRY_AFTER_CAP

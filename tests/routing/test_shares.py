"""Shares are exact; steps leave the others what is left, in their proportion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.shares import HIGHEST, STEPS, shares, stepped


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([100, 30], [100 / 130, 30 / 130]),
        ([1, 0], [1.0, 0.0]),
        ([3, None], [1.0, 0.0]),
        ([None, None], [None, None]),
        ([0, None], [None, None]),
    ],
)
def test_a_share_is_a_weight_of_the_whole(weights, expected):
    assert shares(weights) == expected


@pytest.mark.parametrize(
    ("weights", "place", "percent", "expected"),
    [
        ([100, 0], 1, 10, [90, 10]),
        ([90, 10], 1, 50, [50, 50]),
        ([50, 50], 1, 100, [0, 100]),
        ([0, 100], 1, 25, [75, 25]),
        ([100, 30, 0], 2, 10, [90, 27, 13]),
        ([None, None], 1, 10, [90, 10]),
        ([None, None, 0], 1, 50, [50, 50, 0]),
        ([None, 7], 0, 5, [5, 95]),
        ([None], 0, 5, [100]),
    ],
)
def test_a_step_gives_one_its_share_and_leaves_the_others_theirs(weights, place, percent, expected):
    assert stepped(weights, place, percent) == expected


@given(st.lists(st.integers(0, HIGHEST), min_size=2, max_size=8), st.data())
def test_a_step_is_as_good_as_exact_and_never_too_high_for_a_table(weights, data):
    place, percent = data.draw(st.integers(0, len(weights) - 1)), data.draw(st.sampled_from(STEPS))
    found = stepped(weights, place, percent)
    assert max(found) <= HIGHEST
    assert abs(shares(found)[place] - percent / 100) < 1e-4

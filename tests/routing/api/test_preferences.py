"""`Prefer` by its grammar."""

import time

import pytest

from routing.api.preferences import wait_of


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("wait=10", 10),
        ("WAIT=10", 10),
        ("wait = 10", 10),
        ('wait="10"', 10),
        ("wait=10;x=1; y", 10),
        ("wait=0010", 10),
        ("wait=31", 30),
        ("wait=1000000000", 30),
        ("wait=" + "9" * 5000, 30),
        ("respond-async,wait=10", 10),
        (",, ,wait=10,", 10),
        ('note="a, wait=3", wait=10', 10),
        ("handling=lenient; wait=3, wait=10", 10),
        ("wait=10, wait=20", 10),
        ("b@d, wait=10", 10),
    ],
)
def test_a_wait_is_found_wherever_the_grammar_has_it(header, seconds):
    assert wait_of(header) == seconds


@pytest.mark.parametrize(
    "header",
    ["", "wait", "wait=", 'wait=""', "wait=0", "wait=-5", "wait=1.5", "wait=1e1", "wait=²", "wait=٣", "wait=5 6",
     "waiting=5", "x;wait=5", 'note="wait=5', "wait=x, wait=5"],
)  # fmt: skip
def test_what_is_no_whole_number_of_seconds_asks_for_nothing(header):
    assert wait_of(header) is None


def test_a_hostile_header_costs_little():
    began = time.perf_counter()
    for header in ("a;b= ;" * 20_000 + "!?", '"' * 60_000, "wait " * 10_000, "\\" * 60_000, 'a="' + "\\" * 60_000):
        wait_of(header)
    assert time.perf_counter() - began < 1

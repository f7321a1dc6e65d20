"""The overload experiment's arithmetic: what counts as goodput, as kept and as missed."""

from dataclasses import replace

import pytest

from benchmarks.overload import Ended, Line, Step, line_of, missed, table_of

GOOD = Line(3.0, 75.0, 20.0, 1100, 20.0, 1.0, 1.0, 900.0, 1.0)
ANSWERS = {202, 429, 503}


@pytest.fixture(autouse=True)
def _committed():
    """No database here."""


def ended(at, seconds=1.0, sends=1, ok=True):
    return Ended(at, at + seconds, at + 6.0, ok, sends)


def step(*statuses, waited=()):
    return Step(2.0, 100.0, 120.0, list(statuses), list(waited))


def test_goodput_is_what_ended_in_time_after_the_ramp():
    tasks = [ended(101.0), ended(104.0), ended(110.0), ended(110.0, 7.0), ended(110.0, ok=False), ended(119.5)]
    assert line_of(step(*[202] * 6), tasks).goodput == 2 / 16


def test_rates_shares_and_sends_are_of_what_the_step_accepted():
    tasks = [ended(101.0, sends=2), ended(102.0), ended(103.0, ok=False, sends=0), ended(121.0, sends=9)]
    line = line_of(step(202, 202, 202, 503, waited=[202, 503]), tasks)
    assert (line.offered, line.accepted, line.refused) == (0.2, 0.15, 1)
    assert (line.sends, round(line.kept, 3), line.told_true) == (1.0, 0.667, 0.5)
    assert line.p95_ms == pytest.approx(1000)


def test_a_step_without_refusals_has_nobody_to_come_again():
    assert line_of(step(202), [ended(101.0)]).told_true is None
    assert "–" in table_of([line_of(step(202), [ended(101.0)])])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"sends": 1.21}, "1.21 sends"),
        ({"kept": 0.989}, "98.90%"),
        ({"goodput": 17.9}, "goodput 17.9/s"),
        ({"told_true": 0.9}, "90% of those who came again"),
    ],
)
def test_a_missed_bar_is_named(change, words):
    found = missed([replace(GOOD, factor=1.0), replace(GOOD, **change)], ANSWERS, 0)
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_before_capacity_is_reached_there_is_less_goodput():
    assert missed([replace(GOOD, factor=0.5, goodput=12.0), GOOD], ANSWERS, 0) == []


def test_other_answers_and_overrun_instances_are_missed_bars():
    assert missed([GOOD], {*ANSWERS, 500}, 0) == ["answers [500]"]
    assert len(missed([GOOD], ANSWERS, 1)) == 1

"""When a firing is tried again, and when no more."""

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from common.clock import now
from common.ids import uuid7
from registry.health import complaint_of
from registry.hooks.crossings import crossings
from registry.hooks.messages import TEST, Due, Tried
from registry.hooks.policy import next_step

AT = now()
DUE = Due(uuid7(), uuid.uuid4(), "agent.state", "a1", "http://127.0.0.1/", "", b"", b"{}", 1)


def failed(number=1, event="agent.state", **more):
    due = replace(DUE, number=number, event=event)
    return Tried(due, AT, 1000, 500, "HTTP 500", **more)


def wait_after(tried):
    due_at = next_step(tried, lambda: 0.5).due_at
    return due_at and (due_at - AT - timedelta(seconds=1)).total_seconds()


def test_five_tries_take_a_quarter_of_an_hour():
    assert [wait_after(failed(number)) for number in range(1, 6)] == [15, 60, 240, 600, None]


def test_a_success_is_the_end():
    assert next_step(replace(failed(), error=None)).state == "DELIVERED"


@pytest.mark.parametrize(
    "last", [failed(permanent=True), failed(gone=True), failed(event=TEST), failed(5)], ids=range(4)
)
def test_what_can_or_shall_not_succeed_is_dead_at_once(last):
    assert next_step(last).state == "DEAD"


@pytest.mark.parametrize(("asked", "wait"), [(0, 15), (30, 30), (86_400, 3600)])
def test_the_receiver_may_ask_for_more_time_up_to_an_hour(asked, wait):
    assert wait_after(failed(retry_after_s=asked)) == wait


@pytest.mark.parametrize(("random", "wait"), [(0.0, 13.5), (1.0, 16.5)])
def test_waits_differ_by_a_tenth(random, wait):
    due_at = next_step(replace(failed(), took_ms=0), lambda: random).due_at
    assert (due_at - AT).total_seconds() == pytest.approx(wait)


LIMITS = {"disk": {"degradedBelow": 10}, "load": {"degradedAbove": 5}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, {"disk": 9}, ["short"]),
        ({"disk": 10}, {"disk": 9}, ["short"]),
        ({"disk": 9}, {"disk": 8}, []),
        ({"disk": 9}, {"disk": 10}, ["recovered"]),
        ({"disk": 9}, {}, ["recovered"]),
        ({"disk": 9}, {"disk": None}, ["recovered"]),
        ({"load": 5}, {"load": 5.1}, ["short"]),
        ({"load": 6}, {"load": 6, "other": 1}, []),
    ],
)
def test_a_crossing_is_a_change_of_sides(before, after, said):
    found = crossings(before and {"resources": before}, {"resources": after}, LIMITS)
    assert [one.status for one in found] == said


@pytest.mark.parametrize("amounts", [{"disk": 9}, {"disk": 10}, {"load": 5}, {"load": 5.1}, {"disk": None}, {}])
def test_what_is_short_is_what_the_health_rule_complains_of(amounts):
    said = {"resources": amounts}
    assert bool(crossings(None, said, LIMITS)) == bool(complaint_of(said, LIMITS))

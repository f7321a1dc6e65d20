"""A callback's life by a clock of the test's own: when each try comes, how far the tries are spread, and its end."""

import datetime as dt
from collections import defaultdict
from typing import Any

import pytest

from callbacks import services
from callbacks.messages import Due, NewCallback, Tried
from callbacks.models import Callback, Delivery
from common.database import hot_cursor
from common.ids import sibling, uuid7

START = dt.datetime.now(dt.UTC).replace(microsecond=0)
MILLISECOND = dt.timedelta(milliseconds=1)
STANDARD = [30, 60, 120, 300, 600]
LONG = [*STANDARD, 1800, 7200, 18_000, 36_000, 36_000]


def made(schedule: str, count: int) -> list[Due]:
    """Callbacks that one receiver is to be told at START; their first tries are this process's."""
    subjects = [uuid7() for _ in range(count)]
    new = [
        NewCallback(sibling(one), one, "n", "shop", "https://a.example", None, "", b"{}", schedule, START)
        for one in subjects
    ]
    with hot_cursor() as cursor:
        return services.create(cursor, new, leased=True, now=START)


def refused(due: Due, at: dt.datetime, **more: Any) -> Tried:
    fields = {
        "took_ms": 0,
        "status": 503,
        "error": "HTTP 503",
        "permanent": False,
        "answer": b"",
        "retry_after_s": None,
    }
    return Tried(due, at, **{**fields, **more})


def next_due(dues: list[Due]) -> dt.datetime | None:
    rows = Callback.objects.filter(id__in=[due.id for due in dues], state="PENDING")
    return min(rows.values_list("due_at", flat=True), default=None)


def waits_of(dues: list[Due]) -> dict[int, list[float]]:
    """The seconds from each failed try to the next, by the number of the failed one; nothing is claimed any earlier."""
    mine, now, waits = dues, START, defaultdict(list)
    failed_at: dict[Any, dt.datetime] = {}
    while True:
        for due in mine:
            if due.number > 1:
                waits[due.number - 1].append((now - failed_at[due.id]).total_seconds())
            failed_at[due.id] = now
        services.finish([refused(due, now) for due in mine], now)
        if (now := next_due(dues)) is None:
            return waits
        assert services.claim(now - MILLISECOND, 1000) == []
        mine = services.claim(now, 1000)


@pytest.mark.parametrize(("schedule", "steps"), [("standard", STANDARD), ("long", LONG)])
def test_each_try_comes_at_its_step_spread_by_a_tenth_and_after_the_last_it_is_dead(
    schedule: str, steps: list[int]
) -> None:
    dues = made(schedule, 20)
    waits = waits_of(dues)
    assert list(waits) == list(range(1, len(steps) + 1))
    for step, found in zip(steps, waits.values(), strict=True):
        assert len(found) == 20
        assert step * 0.9 <= min(found)
        assert max(found) <= step * 1.1
        assert max(found) - min(found) > step * 0.05  # a herd that was refused together does not come back together
    rows = Callback.objects.filter(id__in=[due.id for due in dues])
    assert set(rows.values_list("state", "attempts", "last_error")) == {("DEAD", len(steps) + 1, "HTTP 503")}


@pytest.mark.parametrize(("asked_s", "least", "most"), [(5, 27, 33), (90, 90, 90), (10**9, 3600, 3600)])
def test_retry_after_is_honoured_up_to_an_hour(asked_s: int, least: float, most: float) -> None:
    [due] = made("standard", 1)
    services.finish([refused(due, START, retry_after_s=asked_s)], START)
    assert least <= (Callback.objects.get(pk=due.id).due_at - START).total_seconds() <= most


def test_the_wait_begins_when_the_try_failed_and_not_when_it_began() -> None:
    [due] = made("standard", 1)
    services.finish([refused(due, START, took_ms=10_000)], START + dt.timedelta(seconds=10))
    assert Callback.objects.get(pk=due.id).due_at >= START + dt.timedelta(seconds=37)


def test_gone_ends_it_at_once_and_every_try_is_on_record() -> None:
    [due] = made("long", 1)
    services.finish([refused(due, START)], START)
    [again] = services.claim(START + dt.timedelta(minutes=1), 10)
    services.finish([refused(again, START, status=410, error="HTTP 410", permanent=True)], START)
    assert Callback.objects.get(pk=due.id).state == "DEAD"
    tries = Delivery.objects.filter(callback_id=due.id).order_by("number")
    assert [(one.number, one.status, one.next_at is None) for one in tries] == [(1, 503, False), (2, 410, True)]

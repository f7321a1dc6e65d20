"""Intervals go on through the hours that clocks skip or repeat."""

import datetime as dt
import time
from itertools import pairwise

import pytest
from celery.schedules import crontab, schedule

from reach_platform.celery import app

CHANGES = [  # (zone, when its clocks change)
    ("Europe/Berlin", dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC)),
    ("Europe/Berlin", dt.datetime(2026, 10, 25, 1, tzinfo=dt.UTC)),
    ("America/Los_Angeles", dt.datetime(2026, 3, 8, 10, tzinfo=dt.UTC)),
    ("America/Los_Angeles", dt.datetime(2026, 11, 1, 9, tzinfo=dt.UTC)),
]


@pytest.fixture
def clocks_of(monkeypatch):
    def set_zone(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("zone", "change"), CHANGES, ids=lambda value: str(value)[:16])
def test_a_job_runs_once_each_interval_while_the_clocks_change(clocks_of, zone, change):
    clocks_of(zone)
    at = [change - dt.timedelta(hours=1)]
    minutely = schedule(60.0, nowfun=lambda: at[0], app=app)
    last, runs = at[0], []
    for _ in range(3 * 3600 // 10):
        at[0] += dt.timedelta(seconds=10)
        if minutely.is_due(last).is_due:
            runs.append(at[0])
            last = at[0]
    assert len(runs) == 180
    assert {later - one for one, later in pairwise(runs)} == {dt.timedelta(seconds=60)}


def test_no_job_is_set_by_the_clock_on_the_wall():
    assert not any(isinstance(entry["schedule"], crontab) for entry in app.conf.beat_schedule.values())
    assert (app.conf.timezone, app.conf.enable_utc) == ("UTC", True)

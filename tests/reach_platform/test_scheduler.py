"""One beat leads, the others follow, and nothing makes the tick hang."""

import threading
import time
import uuid
from typing import Any

import pytest
from django.db import OperationalError

from reach_platform import scheduler
from reach_platform.scheduler import LeaderScheduler, Lease, Sender
from tests.committed import database, database_made  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _committed(database: None) -> None:  # noqa: F811
    """Leases are committed."""


@pytest.fixture
def duty() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def test_only_one_holds_a_duty(duty: str) -> None:
    first, second = Lease(duty), Lease(duty)
    assert first.is_held(0.0)
    assert not second.is_held(0.0)


def test_a_lapsed_lease_is_taken_over_with_a_new_epoch(duty: str) -> None:
    first, second = Lease(duty, seconds=0), Lease(duty)
    first.is_held(0.0)
    assert second.is_held(1.0)
    assert (first.epoch, second.epoch) == (1, 2)


def test_the_one_who_lost_it_knows(duty: str) -> None:
    first, second = Lease(duty, seconds=0), Lease(duty)
    first.is_held(0.0)
    second.is_held(1.0)
    assert not first.is_held(10.0)


def test_renewing_keeps_the_epoch(duty: str) -> None:
    lease = Lease(duty)
    assert lease.is_held(0.0)
    assert lease.is_held(100.0)
    assert lease.epoch == 1


def test_a_leader_that_cannot_renew_stops_when_its_lease_ends(duty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(duty)
    lease.is_held(0.0)

    def away() -> int:
        raise OperationalError("away")

    monkeypatch.setattr(lease, "_take", away)
    assert lease.is_held(5.0)
    assert not lease.is_held(12.5)


def test_a_released_lease_is_free_at_once(duty: str) -> None:
    first, second = Lease(duty), Lease(duty)
    first.is_held(0.0)
    first.release()
    assert second.is_held(0.0)


def test_a_broker_that_hangs_does_not_hold_up_the_tick() -> None:
    hang = threading.Event()

    class App:
        def send_task(self, *args: Any, **kwargs: Any) -> None:
            hang.wait(30)

    sender = Sender(App(), size=3)  # type: ignore[arg-type]
    sender.start()
    began = time.perf_counter()
    for _ in range(100):
        sender.send("routing.jobs.sweep")
    assert time.perf_counter() - began < 0.5
    hang.set()


@pytest.fixture
def beat(duty: str, monkeypatch: pytest.MonkeyPatch) -> LeaderScheduler:
    from reach_platform.celery import app

    monkeypatch.setattr(scheduler, "DUTY", duty)
    made = LeaderScheduler(app=app)
    sent: list[str] = []
    monkeypatch.setattr(made._sender, "send", lambda job, **_: sent.append(job))
    monkeypatch.setattr(made._sender, "is_alive", lambda: True)
    made.sent = sent
    return made


def test_the_leader_sends_the_table_of_jobs(beat: LeaderScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    from reach_platform.celery import BEAT_JOBS

    assert set(BEAT_JOBS) <= set(beat.schedule)
    for entry in beat.schedule.values():
        entry.last_run_at = entry.last_run_at.replace(year=2020)
    for _ in range(20):
        beat.tick()
    assert {job for job, _ in BEAT_JOBS.values()} <= set(beat.sent)


def test_a_follower_sends_nothing(beat: LeaderScheduler, duty: str) -> None:
    Lease(duty).is_held(0.0)
    for _ in range(20):
        assert beat.tick() == scheduler.TICK_S
    assert beat.sent == []


def test_the_leader_sweeps_by_itself(beat: LeaderScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[Any] = []
    monkeypatch.setattr(scheduler, "sweep", swept.append)
    beat.tick()
    beat.tick()
    assert len(swept) == 1


def test_a_tick_survives_a_lost_database(beat: LeaderScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import connection

    beat.tick()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    connection.connection.close()
    assert pid
    for _ in range(3):
        beat.tick()
    assert beat._lease.is_held(time.monotonic())

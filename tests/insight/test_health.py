import datetime as dt
import time
import uuid

import pytest
from django.db import connection

from common.clock import now
from insight import health
from insight.health import Part, _Watch
from routing.models import Leader, Worker

pytestmark = pytest.mark.django_db
MINUTE = dt.timedelta(minutes=1)


def part(check):
    with connection.cursor() as cursor:
        return check(cursor)


def worker(**fields):
    values = {
        "node": "h:1",
        "started_at": now() - 9 * MINUTE,
        "expires_at": now() + MINUTE,
        "progress_at": None,
        **fields,
    }
    return Worker.objects.create(boot_id=uuid.uuid4(), **values)


@pytest.fixture(autouse=True)
def nobody():
    Worker.objects.all().delete()
    Leader.objects.all().delete()


def test_without_a_worker_it_is_not_ready():
    assert part(health._worker) == Part(False, "no worker holds a lease")


def test_a_worker_whose_lease_ran_out_does_not_count():
    worker(expires_at=now() - MINUTE)
    assert not part(health._worker).ok


def test_an_idle_worker_is_well_however_long_ago_it_finished_something():
    worker(progress_at=now() - 60 * MINUTE)
    assert part(health._worker).ok


def test_a_worker_with_work_in_flight_and_no_progress_is_not_well():
    worker(inflight=3, progress_at=now() - 2 * MINUTE)
    assert not part(health._worker).ok


def test_a_worker_that_just_started_is_given_time():
    worker(inflight=3, started_at=now())
    assert part(health._worker).ok


def test_beat_is_ready_while_its_lease_lives():
    assert not part(health._beat).ok
    leader = Leader.objects.create(duty="beat", holder="h:1", expires_at=now() + MINUTE)
    assert part(health._beat).ok
    leader.expires_at = now() - MINUTE
    leader.save()
    assert not part(health._beat).ok


def test_partitions_must_reach_a_week_ahead(monkeypatch):
    assert part(health._partitions).ok
    monkeypatch.setattr(health, "PARTITIONS_AHEAD", dt.timedelta(days=3650))
    assert "routing_task" in part(health._partitions).detail


def test_a_check_that_hangs_is_reported_in_time_and_not_started_twice():
    started = []

    def hang():
        started.append(1)
        time.sleep(1.0)
        return {"database": Part(True, "late")}

    watch = _Watch(("database",), hang)
    for _ in range(3):
        began = time.monotonic()
        watch.start()
        assert not watch.wait(began + 0.05)["database"].ok
        assert time.monotonic() - began < 0.5
    assert started == [1]


def test_a_check_that_fails_gives_away_no_addresses():
    def fail():
        raise OSError("connection to 10.0.0.5 as reach failed")

    watch = _Watch(("broker",), fail)
    watch.start()
    assert watch.wait(time.monotonic() + 5)["broker"] == Part(False, "cannot be asked (OSError)")


def test_readiness_answers_503_with_every_part_when_something_is_missing(client):
    answer = client.get("/readyz")
    parts = answer.json()["parts"]
    assert set(parts) == {"database", "broker", "worker", "beat", "partitions"}
    assert answer.status_code == 503
    assert all(set(one) == {"ok", "detail"} for one in parts.values())


def test_a_dead_redis_is_said_within_a_second(client, settings, monkeypatch):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(health, "_BROKER", _Watch(("broker",), health._check_broker))
    began = time.monotonic()
    answer = client.get("/readyz")
    assert time.monotonic() - began < 1.0
    assert not answer.json()["parts"]["broker"]["ok"]


def test_the_process_answers_healthz_without_asking_anyone(client, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert client.get("/healthz").json() == {"status": "ok"}

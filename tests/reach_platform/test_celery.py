import os
import signal
import sys
import time
import uuid

import pytest
from celery.fixups.django import DjangoWorkerFixup
from django.db import OperationalError, connection
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError as BrokerError

from reach_platform.celery import BEAT_JOBS, QUEUES, app, drop_broken_connections
from reach_platform.embedded.servers import Servers


def test_a_message_goes_to_its_own_queue_only():
    for name in QUEUES:
        queue = app.amqp.queues[name]
        assert (queue.exchange.name, queue.routing_key) == (name, name)


def test_the_dispatch_job_has_a_queue_of_its_own():
    route = app.amqp.router.route({}, "routing.jobs.dispatch")
    assert route["queue"].name == "dispatch"
    assert app.amqp.router.route({}, "routing.jobs.sweep")["queue"].name == "upkeep"


def test_a_periodic_job_expires_before_its_next_run():
    for name, (_, seconds) in BEAT_JOBS.items():
        assert app.conf.beat_schedule[name]["options"]["expires"] <= seconds


def test_jobs_are_acknowledged_late_and_leave_no_result():
    assert app.conf.task_acks_late
    assert app.conf.task_reject_on_worker_lost
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.task_ignore_result
    assert app.backend.__class__.__name__ == "DisabledBackend"


def test_the_database_connection_outlives_a_job():
    assert DjangoWorkerFixup(app).db_reuse_max == sys.maxsize


def test_a_broken_database_connection_does_not(transactional_db):
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    drop_broken_connections()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def test_a_nudge_needs_no_acknowledgement_and_other_jobs_do():
    assert {name for name in QUEUES if app.amqp.queues[name].no_ack} == {"dispatch"}


@pytest.mark.parametrize(("needs", "acknowledged"), [(True, 1), (False, 0)])
def test_only_what_needs_it_is_acknowledged_in_redis(monkeypatch, needs, acknowledged):
    said = []
    name = f"acks-{uuid.uuid4().hex}"
    with app.connection_for_read() as broker, broker.channel() as channel:
        queue = Queue(name, Exchange(name), routing_key=name, no_ack=not needs, auto_delete=True)(channel)
        queue.declare()
        app.amqp.Producer(channel).publish({"x": 1}, exchange=name, routing_key=name)
        message = queue.get(no_ack=not needs)
        remove = channel.qos._remove_from_indices
        monkeypatch.setattr(channel.qos, "_remove_from_indices", lambda tag: said.append(tag) or remove(tag))
        message.ack()
        queue.delete()
    assert len(said) == acknowledged


def test_a_worker_carries_the_dispatch_engine():
    assert "routing.engine.bootstep:EngineStep" in app.steps["worker"]


def test_every_periodic_job_exists():
    app.loader.import_default_modules()
    assert {job for job, _ in BEAT_JOBS.values()} <= set(app.tasks)


def test_a_paused_redis_holds_a_caller_no_longer_than_the_limit(tmp_path):
    with Servers(tmp_path) as servers:
        url = f"redis+socket://{servers.place.redis_socket}?virtual_host=0"
        with app.connection_for_write(url=url) as broker:
            broker.ensure_connection(max_retries=1)
            redis_process = servers.processes()[1]
            redis_process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            with pytest.raises((BrokerError, OSError)):
                app.send_task("routing.jobs.dispatch", args=[[]], connection=broker, retry=False)
            os.kill(redis_process.pid, signal.SIGCONT)
            assert time.monotonic() - began < 8
    servers.remove()

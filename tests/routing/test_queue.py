"""Nudges never block, never raise, and gather by themselves."""

import threading
import time
import uuid

import pytest

from routing import queue
from routing.queue import Nudger


def ids(count):
    return [uuid.uuid4() for _ in range(count)]


def test_ids_arrive():
    sent, arrived = [], threading.Event()
    given = ids(3)
    Nudger(lambda batch: (sent.extend(batch), arrived.set())).nudge(given)
    assert arrived.wait(5)
    assert sent == [str(one) for one in given]


def test_what_gathers_during_a_publish_goes_out_as_one_message():
    batches, started, go, done = [], threading.Event(), threading.Event(), threading.Event()

    def send(batch):
        batches.append(len(batch))
        started.set()
        go.wait(5)
        if len(batches) == 2:
            done.set()

    nudger = Nudger(send)
    nudger.nudge(ids(1))
    assert started.wait(5)
    for _ in range(50):
        nudger.nudge(ids(1))
    go.set()
    assert done.wait(5)
    assert batches == [1, 50]


def test_a_message_has_at_most_two_hundred_ids():
    batches, done = [], threading.Event()

    def send(batch):
        batches.append(len(batch))
        if sum(batches) == 450:
            done.set()

    Nudger(send).nudge(ids(450))
    assert done.wait(5)
    assert max(batches) == 200


def test_a_broker_that_hangs_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(queue, "BREAK_S", 0.01)
    hang = threading.Event()
    nudger = Nudger(lambda _: hang.wait(30))
    began = time.perf_counter()
    for _ in range(300):
        nudger.nudge(ids(100))
    assert time.perf_counter() - began < 10  # a hanging broker would hold each call up for 30 s
    assert len(nudger._ids) <= queue.LIMIT
    hang.set()


def test_after_a_failure_nudges_flow_again(monkeypatch):
    monkeypatch.setattr(queue, "BREAK_S", 0.01)
    answers = [OSError("no broker")]
    arrived = threading.Event()

    def send(_):
        if answers:
            raise answers.pop()
        arrived.set()

    nudger = Nudger(send)
    nudger.nudge(ids(1))
    end = time.monotonic() + 5
    while not arrived.is_set() and time.monotonic() < end:
        nudger.nudge(ids(1))
        time.sleep(0.01)
    assert arrived.is_set()


def test_publishing_to_a_dead_redis_ends_soon():
    from celery import Celery

    app = Celery(broker="redis://127.0.0.1:1/0")
    app.conf.broker_connection_timeout = 1.0
    began = time.perf_counter()
    with pytest.raises(Exception, match=r".*"):
        app.send_task("routing.jobs.dispatch", args=[[]], retry=False)
    assert time.perf_counter() - began < 5


def test_a_fork_gets_a_publisher_of_its_own():
    before = queue._nudger
    queue._renew_after_fork()
    assert queue._nudger is not before


def test_nudges_wait_for_the_commit(monkeypatch):
    from django.db import transaction

    told, hooks = [], []
    monkeypatch.setattr(queue, "nudge", told.extend)
    monkeypatch.setattr(transaction, "on_commit", hooks.append)
    given = ids(2)
    queue.nudge_on_commit(given)
    assert told == []
    hooks[0]()
    assert told == given


def test_the_more_a_message_carried_the_longer_the_next_one_gathers():
    times, sent = [], threading.Semaphore(0)
    nudger = Nudger(lambda _: (times.append(time.monotonic()), sent.release()))
    for count in (1, 200, 1):
        nudger.nudge(ids(count))
        assert sent.acquire(timeout=5)
    assert times[1] - times[0] >= queue.GATHER_S
    assert times[2] - times[1] >= queue.LONGEST_GATHER_S

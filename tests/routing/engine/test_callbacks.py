"""Callbacks from a task's end to the receiver, through an engine, by a clock of the test's own."""

import asyncio
import datetime as dt
import socket
import threading
from itertools import pairwise

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from callbacks import deliverer
from callbacks import services as callbacks
from callbacks.messages import NewCallback
from callbacks.models import Callback, Delivery
from common import clock
from common.database import hot_cursor
from common.ids import sibling, uuid7
from insight.alerts import conditions
from registry.services import clients
from routing.engine import keeper, secrets
from routing.engine.loop import Engine
from tests.routing.engine.later import put_forward
from tests.routing.engine.local import wait_until

STALL_S = 60.0  # what a slow machine may add


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    """Before the engine starts."""
    monkeypatch.setattr(keeper, "LOOK_S", 0.1)


@pytest.fixture
def later(monkeypatch):
    return put_forward(monkeypatch)


class Hanging:
    """Accepts connections at every loopback address, and never answers."""

    def __init__(self):
        self._listener = socket.create_server(("0.0.0.0", 0), backlog=1024)
        self.accepted = []
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, host="127.0.0.1", path="/cb"):
        return f"http://{host}:{self._listener.getsockname()[1]}{path}"

    def hosts(self, count):
        """So many receivers, each a host of its own."""
        return [self.url(f"127.0.{2 + number // 250}.{1 + number % 250}") for number in range(count)]

    def _accept(self):
        while True:
            try:
                self.accepted.append(self._listener.accept()[0])
            except OSError:
                return

    def stop(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self.accepted:
            one.close()


@pytest.fixture
def hanging(monkeypatch):
    """A receiver that hangs for longer than any of these tests, and so do the claims of its callbacks."""
    monkeypatch.setattr(deliverer, "TOTAL_TIMEOUT_S", 600.0)
    monkeypatch.setattr(callbacks, "LEASE", dt.timedelta(seconds=600))
    found = Hanging()
    yield found
    found.stop()


def to(url):
    return {"type": "http", "url": url}


def tries_of(task_id):
    [callback] = Callback.objects.filter(subject_id=task_id)
    return callback, list(Delivery.objects.filter(callback_id=callback.id).order_by("number"))


def troubles(town, condition, figure):
    return [one.details[figure] for one in condition(clock.now()) if one.namespace == town.namespace]


def test_a_callback_that_is_refused_keeps_to_the_schedule_warns_and_dies(engine, town, later):
    receiver = town.serve(_answering(503))
    task_id = town.submit(callback=to(receiver.url))
    warned = []
    for number in range(1, 7):
        wait_until(lambda number=number: len(_ended_tries(task_id)) == number)
        callback, tries = tries_of(task_id)
        warned.append(troubles(town, conditions.callbacks_failing, "deliveries"))
        if callback.due_at:
            later((callback.due_at - clock.now()).total_seconds())
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(tries)]
    for step, gap in zip((30, 60, 120, 300, 600), gaps, strict=True):
        assert 0.9 * step <= gap <= 1.1 * step + STALL_S
    assert (callback.state, warned) == ("DEAD", [[], [], [], [4], [5], []])
    assert troubles(town, conditions.callbacks_dead, "callbacks") == [1]
    assert len({told.headers["webhook-id"] for told in receiver.received}) == 1
    assert [told.headers["Reach-Delivery-Attempt"] for told in receiver.received] == list("123456")


def _ended_tries(task_id):
    """The tries so far, once nobody is at the next one."""
    found = Callback.objects.filter(subject_id=task_id)
    return tries_of(task_id)[1] if found and found[0].attempts == len(tries_of(task_id)[1]) else []


def _answering(status, **headers):
    async def answer(_):
        return web.Response(status=status, headers=headers)

    return answer


def test_a_dead_callback_can_be_told_again_by_hand_as_the_same_message(engine, town):
    receiver = town.serve(_answering(410))
    task_id = town.submit(callback=to(receiver.url))
    wait_until(lambda: Callback.objects.filter(subject_id=task_id, state="DEAD"))
    receiver.answer = _answering(204)
    assert callbacks.redeliver_matching(town.namespace, now=clock.now()) == [tries_of(task_id)[0].id]
    wait_until(lambda: Callback.objects.filter(subject_id=task_id, state="DELIVERED"))
    first, second = receiver.received
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])


@pytest.mark.parametrize("shared", ["nothing", "a host"])
def test_receivers_that_hang_delay_no_callback_of_one_that_is_well(engine, town, hanging, shared):
    urls = hanging.hosts(200) if shared == "nothing" else [hanging.url(path=f"/{number}") for number in range(200)]
    stuck = put(town, *urls)
    wait_until(lambda: len(hanging.accepted) >= len(stuck))
    receiver = town.serve()
    told = put(town, *[receiver.url] * 30)
    wait_until(lambda: Callback.objects.filter(id__in=told, state="DELIVERED").count() == len(told))
    assert Callback.objects.filter(id__in=stuck, state="PENDING", attempts=1).count() == len(stuck)
    assert not Delivery.objects.filter(callback_id__in=stuck)


def put(town, *urls, ago_s=0):
    """Callbacks that are due since then; their ids."""
    new = [waiting_callback(town, url) for url in urls]
    with hot_cursor() as cursor:
        callbacks.create(cursor, new, leased=False, now=clock.now() - dt.timedelta(seconds=ago_s))
    return [one.id for one in new]


def waiting_callback(town, url):
    subject = uuid7()
    return NewCallback(
        sibling(subject), subject, town.namespace, "shop", url, None, "", b"{}", "standard", clock.now()
    )  # fmt: skip


def test_a_flood_for_one_that_hangs_does_not_hide_the_callback_of_one_that_is_well(engine, town, hanging, monkeypatch):
    monkeypatch.setattr(keeper, "CALLBACKS", 20)
    receiver = town.serve()
    stuck = put(town, *[hanging.url()] * 300, ago_s=3600)
    put(town, receiver.url)
    receiver.wait_for(1)
    wait_until(lambda: _put_off(stuck) >= 250)
    assert len(hanging.accepted) <= 21


def _put_off(ids):
    """How many were not tried and come again later."""
    rows = Callback.objects.filter(id__in=ids, state="PENDING", attempts=0)
    return rows.filter(due_at__gt=clock.now()).count()


def test_a_receiver_that_answers_too_late_gets_the_same_message_once_more(engine, town, later, monkeypatch):
    monkeypatch.setattr(deliverer, "TOTAL_TIMEOUT_S", 1.0)
    receiver = town.serve(_too_late_at_first())
    task_id = town.submit(callback=to(receiver.url))
    wait_until(lambda: len(_ended_tries(task_id)) == 1)
    later(35)
    wait_until(lambda: len(_ended_tries(task_id)) == 2)
    callback, tries = tries_of(task_id)
    assert (callback.state, tries[0].error[:7], tries[1].status) == ("DELIVERED", "TIMEOUT", 200)
    assert len({(told.headers["webhook-id"], told.body) for told in receiver.received}) == 1


def _too_late_at_first():
    times = iter((600, 0))

    async def answer(_):
        await asyncio.sleep(next(times))
        return web.Response()

    return answer


def test_a_later_try_is_signed_with_the_new_secret_too(engine, town, later, monkeypatch):
    monkeypatch.setattr(secrets, "KEPT_S", 0.0)  # by the clock of the test half a minute passes in no time
    receiver = town.serve(_answering(503))
    task_id = town.submit(callback=to(receiver.url))
    wait_until(lambda: len(_ended_tries(task_id)) == 1)
    new = clients.rotate(town.namespace, "shop", actor="test", now=clock.now()).callback_secret
    receiver.answer = _answering(200)
    later(35)
    wait_until(lambda: len(_ended_tries(task_id)) == 2)
    told = receiver.received[1]
    for secret in (town.secret, new):
        Webhook(secret).verify(told.body.decode(), dict(told.headers))


def test_the_schedule_goes_on_in_another_process(engine, town, later):
    receiver = town.serve(_answering(503))
    task_id = town.submit(callback=to(receiver.url))
    wait_until(lambda: len(_ended_tries(task_id)) == 1)
    engine.stop(1.0)
    receiver.answer = _answering(200)
    second = Engine(room=10)
    second.start()
    later(35)
    wait_until(lambda: len(_ended_tries(task_id)) == 2)
    second.stop(1.0)
    assert [told.headers["Reach-Delivery-Attempt"] for told in receiver.received] == ["1", "2"]

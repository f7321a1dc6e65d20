"""Tasks of an agent that fetches: offered by the engine, fetched by a long poll, reported by API."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from common import clock
from common.json import parse
from registry.models import Agent, Instance
from registry.services.changes import touch
from routing import leasing, pulling, snapshot
from routing.services import report
from routing.services.lease import Fetcher
from tests.routing import handoff_calls
from tests.routing.engine.local import wait_until


@pytest.fixture
def puller(town):
    """The town's agent fetches its tasks; gives the instance that asks."""
    with transaction.atomic():
        Agent.objects.filter(namespace=town.namespace).update(manifest={"spec": {"channels": ["pull", "http"]}})
        Instance.objects.filter(agent__namespace=town.namespace).update(invoke_url="")
        touch(town.namespace)
    wait_until(lambda: snapshot.current(town.namespace).agents["worker"].channels == ("pull", "http"))
    return Fetcher(town.namespace, "worker", "i1")


@pytest.fixture
def poll(monkeypatch, _others_leave):
    """poll(fetcher, seconds, during=…) makes a long poll to its end."""
    takers = ThreadPoolExecutor(1)
    monkeypatch.setattr(leasing, "_takers", takers)

    def polling(fetcher, seconds=5.0, **more):
        return handoff_calls.respond(leasing.WaitForWork(fetcher, 4, seconds), within=seconds + 5, **more)

    yield polling
    takers.submit(handoff_calls._close_connections).result()


def tasks_of(connection):
    return parse(connection.body)["tasks"]


def test_a_waiting_poll_gets_the_task_as_soon_as_it_is_offered(engine, town, puller, poll):
    handed = []
    began = time.monotonic()
    answer = poll(puller, 20.0, during=lambda _: handed.append(town.submit()))
    assert [one["taskId"] for one in tasks_of(answer)] == [str(handed[0])]
    assert time.monotonic() - began < 10
    assert town.agent.received == []


def test_fetched_acknowledged_and_answered(engine, town, puller, poll):
    task_id = town.submit()
    [one] = tasks_of(poll(puller))
    report.receipt(task_id, one["attemptKey"], b"{}", clock.now())
    report.result(task_id, one["attemptKey"], b'{"status": "SUCCEEDED", "data": {"y": 2}}', clock.now())
    [row] = town.ended(task_id)
    assert (row["state"], row["instance_id"]) == ("SUCCEEDED", "i1")
    assert town.events(task_id) == ["RECEIVED", "WAITING", "ROUTED", "DISPATCHED", "RUNNING", "SUCCEEDED"]


def test_a_poll_ends_empty_when_its_time_is_over(puller, poll):
    answer = poll(puller, 0.0)
    assert (tasks_of(answer), answer.is_complete) == ([], True)


def test_without_redis_the_look_each_second_finds_it(engine, town, puller, poll, monkeypatch):
    monkeypatch.setattr(pulling, "tell", lambda *_: None)
    handed = []
    answer = poll(puller, 20.0, during=lambda _: handed.append(town.submit()))
    assert [one["taskId"] for one in tasks_of(answer)] == [str(handed[0])]


def test_what_the_agent_hung_up_on_was_not_sent(engine, town, puller, poll):
    task_id = town.submit()
    wait_until(lambda: pulling.read_offered([(town.namespace, "worker")]))
    assert poll(puller, 5.0, left=True).messages == []
    [one] = tasks_of(poll(puller, 10.0))
    assert (one["taskId"], one["attempt"]) == (str(task_id), 2)


def test_interactive_work_is_pushed_where_that_is_offered(engine, town, puller):
    town.point_to(town.agent.url)
    task_id = town.submit(metadata={"delivery": "interactive"})
    [row] = town.ended(task_id)
    assert (row["state"], len(town.agent.received)) == ("SUCCEEDED", 1)

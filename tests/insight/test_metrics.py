import time
import uuid

import pytest
from prometheus_client.parser import text_string_to_metric_families

from insight import metrics
from registry.models import Agent
from routing import breaker
from routing.breaker.rule import Figures, Result
from routing.models import Route
from tests.insight.rows import make_callback, make_task

pytestmark = pytest.mark.django_db


def series(name, **labels):
    metrics._KEPT._good_until = 0  # count anew
    families = text_string_to_metric_families(metrics.exposition().decode())
    samples = [s for family in families for s in family.samples if s.name == f"agent_reach_{name}"]
    return [(s.labels, s.value) for s in samples if labels.items() <= s.labels.items()]


def test_every_name_begins_with_the_platforms(namespace):
    make_task(namespace)
    text = metrics.exposition().decode()
    assert all(line.split()[2].startswith("agent_reach_") for line in text.splitlines() if line.startswith("# TYPE"))


def test_tasks_are_counted_by_registered_names_only(namespace):
    Route.objects.create(namespace_id=namespace, ability="a.b")
    Agent.objects.create(namespace_id=namespace, agent_id="echo")
    make_task(namespace, ability="a.b", agent_id="echo")
    make_task(namespace, ability="made.up", agent_id="made-up")
    found = {(one["ability"], one["agent"]): n for one, n in series("tasks_ended_last_hour", namespace=namespace)}
    assert found == {("a.b", "echo"): 1, ("other", ""): 1}


def test_open_tasks_and_callbacks_are_counted_by_state(namespace):
    make_task(namespace, "RUNNING")
    make_callback(make_task(namespace), "DEAD", errors=("HTTP 500",))
    assert series("tasks_open", namespace=namespace) == [({"namespace": namespace, "state": "RUNNING"}, 1)]
    assert series("callbacks_dead", namespace=namespace) == [({"namespace": namespace}, 1)]


def test_two_scrapes_in_a_row_count_once(namespace, django_assert_num_queries):
    metrics._KEPT._good_until = 0
    metrics.exposition()
    with django_assert_num_queries(0):
        metrics.exposition()


def test_open_breakers_are_counted(namespace, settings):
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    now = time.time()
    key = breaker.Key(namespace, "echo", "i1")
    for task in (1, 2, 3):
        breaker.view().note([key], Result(task, False, now, now), Figures())
    assert series("breakers_open", namespace=namespace) == [({"namespace": namespace, "agent": "echo"}, 1)]

"""What a task asks for decides who gets it, up to the agent's door."""

import pytest
from django.db import transaction

from common import clock
from insight.journey import journey
from registry.models import Agent, Instance
from registry.services.changes import touch
from routing.models import Candidate, Route
from tests.routing.engine.local import wait_until


@pytest.fixture
def second(town):
    """Another agent that offers the same ability; what it declares is set afterwards."""
    return town.add_agent("second", town.serve().url)


@transaction.atomic
def declare(town, agent_id, **fields):
    Agent.objects.filter(namespace=town.namespace, agent_id=agent_id).update(**fields)
    touch(town.namespace)


@transaction.atomic
def share(town, **weights):
    """The candidates' traffic shares."""
    route, _ = Route.objects.get_or_create(namespace_id=town.namespace, ability="echo")
    route.candidates.all().delete()
    for position, (agent, weight) in enumerate(weights.items()):
        Candidate.objects.create(route=route, position=position, agent_id=agent, weight=weight)
    touch(town.namespace)


def takers(engine, town, count=6, **fields):
    """Who gets so many tasks."""
    tasks = [town.submit(**fields) for _ in range(count)]
    engine.claim(tasks)
    return {row["agent_id"] for row in town.ended(*tasks)}


def test_only_an_agent_with_the_tags_gets_the_task(engine, town, second):
    declare(town, "second", tags=["gpu"])
    assert takers(engine, town, target={"ability": "echo", "tags": ["gpu"]}) == {"second"}


@pytest.mark.parametrize(
    ("has", "asks"),
    [
        ({"labels": {"gpu": True}}, {"target": {"ability": "echo", "requires": {"gpu": True}}}),
        ({"region": "north"}, {"preferLocal": "north"}),
    ],
    ids=["requires", "region"],
)
def test_only_an_instance_that_has_what_is_asked_for_gets_the_task(engine, town, second, has, asks):
    town.change(second, **has)
    assert takers(engine, town, **asks) == {"second"}


def test_who_needs_metadata_gets_only_tasks_that_have_it(engine, town, second):
    declare(town, "worker", manifest={"spec": {"protocol": {"needs": ["userId"]}}})
    assert takers(engine, town, metadata={"userId": None}) == {"second"}
    assert takers(engine, town, count=30, metadata={"userId": "u"}) == {"worker", "second"}


def test_the_journey_shows_who_was_passed_over_and_why(engine, town, second):
    declare(town, "worker", manifest={"spec": {"protocol": {"schemaVersions": ["2.0"]}}})
    task_id = town.submit()
    engine.claim([task_id])
    town.ended(task_id)
    [decision] = journey(task_id, clock.now())["decisions"]
    assert decision["candidates"] == [
        {"agentId": "second", "instanceId": "i1", "score": 1.0, "inflight": 0, "rejected": None},
        {"agentId": "worker", "instanceId": "i1", "score": 1.0, "inflight": 0, "rejected": "SCHEMA_VERSION"},
    ]


def test_a_task_that_no_worker_serves_the_zone_of_waits_and_says_so(engine, town, settings):
    settings.REACH_ZONES = frozenset({"inner"})
    town.change(Instance.objects.get(agent__namespace=town.namespace), zone="dmz")
    task_id = town.submit()
    engine.claim([task_id])
    wait_until(lambda: "WAITING" in town.events(task_id), 10)
    settings.REACH_ZONES = frozenset()
    assert town.ended(task_id)[0]["state"] == "SUCCEEDED"


def test_a_change_of_shares_holds_from_the_next_task_on(engine, town, second):
    share(town, worker=100, second=0)
    assert takers(engine, town) == {"worker"}
    share(town, worker=0, second=100)
    assert takers(engine, town) == {"second"}

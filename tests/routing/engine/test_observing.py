"""What live calls say of instances, and how soon a dead one is out."""

import time
import uuid

import pytest

from common import clock
from registry.models import Agent, Instance
from registry.services import evidence
from routing.channels.base import failed
from routing.evidence import code_of, fits_of, result_of
from routing.states import Certainty, TaskError
from routing.trip import Outcome
from tests.routing.engine.local import wait_until

NOW = clock.now()


@pytest.fixture(autouse=True)
def _own_redis(settings):
    """Test databases that share a Redis number their instances alike."""
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"


def failure(code, certainty=Certainty.RAN, **given):
    return failed(TaskError(code), certainty, NOW, "", **given)


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Outcome("SUCCEEDED", Certainty.RAN, NOW), "ok"),
        (Outcome("ACCEPTED", Certainty.RAN, NOW), "ok"),
        (failure("REJECTED"), "neutral"),
        (failure("TIMEOUT"), "failed"),
        (failure("UNREACHABLE"), "failed"),
        (failure("INTERNAL_ERROR"), "failed"),
        (failure("BAD_RESPONSE"), "failed"),
        (failure("SERVICE_UNAVAILABLE"), "failed"),
        (failure("SERVICE_UNAVAILABLE", retry_after_ms=1000), "neutral"),
        (failure("AGENT_FAILED"), "neutral"),
        (failure("AGENT_FAILED", retryable=True), "failed"),
    ],
)
def test_what_an_outcome_says_of_the_instance(outcome, result):
    assert result_of(outcome) == result


def test_a_lost_connection_is_not_a_dead_instance():
    assert code_of(failure("UNREACHABLE", Certainty.NOT_SENT)) == "UNREACHABLE"
    assert code_of(failure("UNREACHABLE", Certainty.MAYBE_RAN)) == "CONNECTION_LOST"


@pytest.mark.parametrize(
    ("outcome", "declared", "fits"),
    [
        (Outcome("SUCCEEDED", Certainty.RAN, NOW), True, True),
        (Outcome("SUCCEEDED", Certainty.RAN, NOW), False, None),
        (failure("BAD_RESPONSE"), True, False),
        (failure("BAD_RESPONSE"), False, None),
        (failure("TIMEOUT"), True, None),
        (failure("AGENT_FAILED"), True, None),
        (Outcome("ACCEPTED", Certainty.RAN, NOW), True, None),
    ],
)
def test_only_answers_of_a_declared_form_can_fit_or_not(outcome, declared, fits):
    assert fits_of(outcome, declared=declared) is fits


def state_of(instance):
    return Instance.objects.get(pk=instance.pk).state


def second_copy(town, url):
    first = town.instance()
    agent = Agent.objects.get(pk=first.agent_id)
    return Instance.objects.create(
        agent=agent, instance_id="i2", invoke_url=url, state="ONLINE", state_since=first.state_since,
        registered_at=first.registered_at,
    )  # fmt: skip


def test_a_dead_instance_is_out_within_five_seconds_of_traffic(engine, town):
    dead = second_copy(town, "http://127.0.0.1:9/")
    town.change(dead, weight=100)
    began = time.monotonic()
    tasks = []
    while state_of(dead) != "OFFLINE" and time.monotonic() < began + 8:
        tasks.append(town.submit(retry={"backoffMs": 10}))
        engine.claim(tasks[-1:])
        time.sleep(0.05)
    assert time.monotonic() - began < 5
    assert {row["state"] for row in town.ended(*tasks)} == {"SUCCEEDED"}
    assert Instance.objects.get(agent__namespace=town.namespace, instance_id="i1").state == "ONLINE"


def test_a_lone_dead_instance_stays_routable(engine, town):
    town.point_to("http://127.0.0.1:9/")
    only = town.instance()
    tasks = [town.submit(retry={"maxAttempts": 1}) for _ in range(4)]
    engine.claim(tasks)
    town.ended(*tasks)
    wait_until(lambda: state_of(only) == "DEGRADED", 5)
    assert Instance.objects.get(pk=only.pk).reason.endswith("kept in, as too few would be left")


def test_calls_are_on_record_within_two_seconds(engine, town):
    task_id = town.submit()
    engine.claim([task_id])
    town.ended(task_id)
    pk = town.instance().pk
    wait_until(lambda: evidence.read([pk])[pk].calls, 2)
    [call] = evidence.read([pk])[pk].calls
    assert call.ok
    assert 0 < call.ms < 5000

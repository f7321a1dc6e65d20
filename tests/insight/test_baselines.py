"""Baselines: what is usual for an agent's capability, and the limits that follow from it."""

import pytest

from common.clock import now
from registry.models import Agent
from registry.services import credentials
from tests.insight.rows import make_attempt, make_task, ms
from tests.registry.calls import Api
from tests.registry.conftest import operator  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db


@pytest.fixture
def agents(namespace):
    for name in ("ticket-classifier", "other"):
        Agent.objects.create(namespace_id=namespace, agent_id=name)


def call(namespace, took, agent_id="ticket-classifier", number=1, **fields):
    at = now() - ms(60_000)
    make_attempt(make_task(namespace, at=at), number, sent_at=at, ended_at=at + ms(took), agent_id=agent_id, **fields)


def test_a_baseline_is_of_the_attempts_that_ended(agents, namespace, operator):  # noqa: F811
    for number in range(1, 101):
        call(namespace, number * 10)
    call(namespace, 5000, outcome="TIMEOUT", code="TIMEOUT", number=2)
    call(namespace, 0, outcome=None)
    (row,) = operator("GET", f"/v1/baselines?namespace={namespace}&agentId=ticket-classifier").json()["items"]
    assert row == {
        "agentId": "ticket-classifier", "capability": "classify", "count": 101, "p50Ms": 500, "p95Ms": 950,
        "p99Ms": 990, "meanMs": 505, "timeoutRate": 0.0099, "retryRate": 0.0099, "recommendedTimeoutMs": 2900,
        "recommendedSlaMs": 1425,
    }  # fmt: skip


def test_an_agent_without_a_success_has_no_times(agents, namespace, operator):  # noqa: F811
    call(namespace, 10, outcome="FAILED", code="UNREACHABLE")
    (row,) = operator("GET", f"/v1/baselines?namespace={namespace}").json()["items"]
    assert (row["count"], row["p95Ms"], row["recommendedTimeoutMs"]) == (1, None, None)


def test_an_agent_reads_its_own_and_an_unknown_one_is_404(agents, namespace, operator):  # noqa: F811
    call(namespace, 10)
    call(namespace, 10, agent_id="other")
    own = Api(credentials.for_agent(namespace, "other", actor="test", now=now()).key)
    assert [row["agentId"] for row in own("GET", "/v1/baselines").json()["items"]] == ["other"]
    assert own("GET", "/v1/baselines?agentId=ticket-classifier").status_code == 404
    assert operator("GET", f"/v1/baselines?namespace={namespace}&agentId=nobody").status_code == 404
    assert operator("GET", f"/v1/baselines?namespace={namespace}&agentid=x").status_code == 400

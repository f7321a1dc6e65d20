"""An agent's figures: from its attempts, in a window, of bounded cost."""

import datetime as dt

import pytest

from common.clock import now
from insight.agent_api import window_of
from registry.models import Agent, Instance
from registry.services import clients, credentials
from tests.insight.rows import make_attempt, make_task, ms
from tests.registry.calls import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(namespace):
    row = Agent.objects.create(namespace_id=namespace, agent_id="ticket-classifier")
    for number, state in enumerate(["ONLINE", "DEGRADED", "OFFLINE"]):
        Instance.objects.create(
            agent=row, instance_id=f"i-{number}", state=state, state_since=now(), registered_at=now()
        )
    return row


@pytest.fixture
def operator(db):
    return Api(credentials.operator(actor="test", now=now()).key)


def stats(api, namespace, **query):
    tail = "&".join(f"{name}={value}" for name, value in {"namespace": namespace, **query}.items())
    return api("GET", f"/v1/agents/ticket-classifier/stats?{tail}")


def add_calls(namespace):
    at = now() - ms(60_000)
    good, bad, other = (make_task(namespace, at=at, client=name) for name in ("shop", "shop", "crm"))
    make_attempt(good)
    make_attempt(bad, outcome="FAILED", code="UNREACHABLE")
    make_attempt(bad, 2, outcome="TIMEOUT", code="TIMEOUT")
    make_attempt(other, outcome=None)


def test_an_agents_figures_are_those_of_its_calls_in_the_window(agent, operator, namespace):
    add_calls(namespace)
    make_attempt(make_task(namespace, at=now() - dt.timedelta(hours=2)))
    make_attempt(make_task(namespace, at=now() - ms(60_000)), agent_id="another")
    found = stats(operator, namespace, window="15m").json()
    assert {key: found[key] for key in ("calls", "succeeded", "failed", "inflight", "success", "meanLatencyMs")} == {
        "calls": 4, "succeeded": 1, "failed": 2, "inflight": 1, "success": 0.3333, "meanLatencyMs": 100.0,
    }  # fmt: skip
    assert found["qps"] == pytest.approx(4 / 900, abs=1e-4)
    assert found["failures"] == [{"code": "TIMEOUT", "count": 1}, {"code": "UNREACHABLE", "count": 1}]
    assert found["callers"] == [
        {"client": "shop", "count": 3, "succeeded": 1}, {"client": "crm", "count": 1, "succeeded": 0},
    ]  # fmt: skip
    assert (found["alive"], found["takingWork"], found["instances"]["OFFLINE"], found["windowMs"]) == (
        True,
        2,
        1,
        900_000,
    )


def test_an_agent_without_calls_has_no_shares(agent, operator, namespace):
    found = stats(operator, namespace).json()
    assert (found["calls"], found["success"], found["meanLatencyMs"], found["callers"]) == (0, None, None, [])


def test_more_calls_than_are_looked_at_are_named_so(agent, operator, namespace, monkeypatch):
    monkeypatch.setattr("insight.stats.MOST", 2)
    for second in (30, 20, 10):
        make_attempt(make_task(namespace, at=now() - ms(1000 * second)))
    found = stats(operator, namespace).json()
    assert (found["calls"], found["sampled"]) == (2, True)
    assert found["windowMs"] < 21_000


def test_a_client_is_told_of_no_other_one(agent, namespace):
    add_calls(namespace)
    key = clients.create(namespace, "crm", scopes=["catalog:read"], actor="test", now=now()).issued.key
    assert [one["client"] for one in stats(Api(key), namespace).json()["callers"]] == ["crm"]


@pytest.mark.parametrize("scope", ["route", "tasks:read"])
def test_it_needs_the_right_to_read_the_catalog(agent, namespace, scope):
    key = clients.create(namespace, "few", scopes=[scope], actor="test", now=now()).issued.key
    assert stats(Api(key), namespace).status_code == 403


def test_another_agents_key_finds_nothing(agent, namespace):
    own, other = (
        credentials.for_agent(namespace, name, actor="test", now=now()).key for name in ("ticket-classifier", "b")
    )
    assert [stats(Api(key), namespace).status_code for key in (own, other)] == [200, 404]


def test_it_takes_few_queries(agent, operator, namespace, django_assert_max_num_queries):
    add_calls(namespace)
    stats(operator, namespace)
    with django_assert_max_num_queries(4):
        assert stats(operator, namespace).status_code == 200


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, 3600), ("90s", 90), ("60", 60), ("15m", 900), ("7d", 604_800), ("30000ms", 30)]
)
def test_a_window_is_a_span_with_its_unit(text, seconds):
    assert window_of(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "query", ["window=0", "window=31d", "window=-1h", "window=1w", "window=1.5h", "window=٣m", "window=", "windows=1h"]
)
def test_a_bad_window_is_a_400_that_says_what_is_right(agent, operator, namespace, query):
    answer = operator("GET", f"/v1/agents/ticket-classifier/stats?namespace={namespace}&{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")
    assert "window" in answer.json()["detail"]

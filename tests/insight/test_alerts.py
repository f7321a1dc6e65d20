"""Alerts: raised once when a trouble is found, renewed while it holds, ended when it is over."""

import datetime as dt
import time

import pytest

from common import redis
from common.clock import now
from common.ids import uuid7
from insight.alerts import conditions
from insight.alerts.conditions import CONDITIONS, Condition, Trouble
from insight.alerts.words import message_of
from insight.models import Alert
from insight.services import alerts
from registry.models import Agent, HookFiring, Instance, Membership
from routing import breaker
from routing.breaker.rule import Figures, Result
from tests.insight.rows import NOW, make_attempt, make_callback, make_task, ms
from tests.registry.conftest import operator  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db
MINUTE = dt.timedelta(minutes=1)


def trouble(namespace, subject="agent:a1", **details):
    return Trouble(namespace, Alert.Kind.AGENT_OFFLINE, Alert.Severity.CRITICAL, subject, "a1", details)


def looked(found):
    return [Condition(frozenset({Alert.Kind.AGENT_OFFLINE}), lambda now: found)]


def only(namespace):
    return Alert.objects.get(namespace=namespace)


def make_agent(namespace, states, **fields):
    agent = Agent.objects.create(namespace_id=namespace, agent_id="a1", manifest={}, **fields)
    for number, state in enumerate(states):
        Instance.objects.create(agent=agent, instance_id=f"i{number}", state=state, state_since=NOW, registered_at=NOW)
    return agent


def found_by(condition, namespace, at=NOW):
    return [(one.kind, one.subject, one.details) for one in condition(at) if one.namespace == namespace]


def test_a_trouble_is_raised_once_renewed_and_ended(namespace):
    alerts.watch(NOW, looked([trouble(namespace, out=1)]))
    alerts.watch(NOW + MINUTE, looked([trouble(namespace, out=2)]))
    row = only(namespace)
    assert (row.raised_at, row.seen_at, row.details, row.count, row.ended_at) == (
        NOW,
        NOW + MINUTE,
        {"out": 2},
        1,
        None,
    )
    alerts.watch(NOW + 2 * MINUTE, looked([]))
    assert only(namespace).ended_at == NOW + 2 * MINUTE


def test_what_comes_back_soon_is_the_same_alert_and_later_a_new_one(namespace):
    for minute, there in enumerate([True, False, True, False]):
        alerts.watch(NOW + minute * MINUTE, looked([trouble(namespace)] if there else []))
    assert only(namespace).count == 2
    alerts.watch(NOW + 3 * MINUTE + alerts.QUIET + MINUTE, looked([trouble(namespace)]))
    assert Alert.objects.filter(namespace=namespace).count() == 2


def test_hooks_are_told_once_of_an_alert(namespace, operator, settings):  # noqa: F811
    settings.REACH_OUTBOUND_ALLOW = ["127.0.0.0/8"]
    hook = {"events": ["alert"], "url": "http://127.0.0.1:9/hook"}
    assert operator("POST", f"/v1/hooks?namespace={namespace}", hook).status_code == 201
    for minute, there in enumerate([True, True, False, True]):
        alerts.watch(NOW + minute * MINUTE, looked([trouble(namespace, "client:shop")] if there else []))
    firing = HookFiring.objects.get(hook__namespace=namespace)
    assert (firing.event, firing.about) == ("alert", f"alert:{only(namespace).pk}")


def test_a_condition_that_cannot_be_looked_at_leaves_its_alerts(namespace):
    def broken(now):
        from django.db import OperationalError

        raise OperationalError

    alerts.watch(NOW, looked([trouble(namespace)]))
    alerts.watch(NOW + MINUTE, [Condition(frozenset({Alert.Kind.AGENT_OFFLINE}), broken)])
    assert only(namespace).ended_at is None


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        (["OFFLINE", "OFFLINE"], Alert.Kind.AGENT_OFFLINE),
        (["OFFLINE", "ONLINE"], Alert.Kind.INSTANCES_OFFLINE),
        (["ONLINE", "DEGRADED", "NEW"], None),
        ([], None),
    ],
)
def test_agents_and_instances_that_are_offline(namespace, states, kind):
    make_agent(namespace, states)
    assert [one[0] for one in found_by(conditions.offline, namespace)] == ([kind] if kind else [])


def test_an_agent_in_maintenance_is_meant_to_be_offline(namespace):
    make_agent(namespace, ["OFFLINE"], maintenance=True)
    assert found_by(conditions.offline, namespace) == []


@pytest.fixture
def trip(namespace, settings):
    """trip(client) has an instance fail for a client until its breaker opens."""
    settings.REACH_REDIS_PREFIX = f"t-{namespace}"
    breaker.view().close()

    def fail(client, instance_id="i0"):
        for task in range(3):
            at = time.time()
            keys = breaker.keys_of(namespace, ("a1", instance_id), "echo", client)
            breaker.view().note(keys, Result(hash((client, task)) or 1, False, at, at, client), Figures())
        breaker.view().flush()

    yield fail
    breaker.view().close()


def test_open_breakers_of_an_agent_are_one_alert_that_names_its_instances(namespace, trip):
    assert found_by(conditions.breakers_open, namespace, now()) == []
    for instance_id in ("i0", "i1"):
        trip("shop", instance_id)
        trip("bank", instance_id)
    assert found_by(conditions.breakers_open, namespace, now()) == [(
        Alert.Kind.BREAKER_OPEN, "agent:a1",
        {"open": 2, "instances": ["i0", "i1"], "forClients": 2, "clients": ["bank", "shop"]},
    )]  # fmt: skip


def test_a_breaker_that_is_open_for_one_client_says_for_whom(namespace, trip):
    trip("shop")
    ((_, _, details),) = found_by(conditions.breakers_open, namespace, now())
    assert (details["open"], details["clients"]) == (0, ["shop"])


def test_an_open_breaker_is_told_once_however_often_it_is_looked_at(namespace, trip):
    trip("shop")
    watched = [Condition(frozenset({Alert.Kind.BREAKER_OPEN}), conditions.breakers_open)]
    for seconds in (1, 16, 31):
        alerts.watch(now() + dt.timedelta(seconds=seconds), watched)
    row = only(namespace)
    assert (row.count, row.severity, row.agent_id, row.ended_at) == (1, "warning", "a1", None)
    assert "{" not in message_of(row).en + message_of(row).zh


def test_breaker_alerts_stay_while_redis_is_away(namespace, monkeypatch):
    row = Trouble(namespace, Alert.Kind.BREAKER_OPEN, Alert.Severity.WARNING, "agent:a1", "a1")
    kinds = frozenset({Alert.Kind.BREAKER_OPEN})
    alerts.watch(NOW, [Condition(kinds, lambda now: [row])])

    def away(work):
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", away)
    alerts.watch(NOW + MINUTE, [Condition(kinds, conditions.breakers_open)])
    assert only(namespace).ended_at is None


def test_callbacks_alert_at_the_fourth_failure_and_when_they_are_dead(namespace):
    make_callback(make_task(namespace), "PENDING", errors=("503",) * 3)
    assert found_by(conditions.callbacks_failing, namespace) == []
    make_callback(make_task(namespace), "PENDING", errors=("503",) * 4)
    ((_, subject, details),) = found_by(conditions.callbacks_failing, namespace)
    assert (subject, details) == ("client:shop", {"callbacks": 1, "deliveries": 4, "lastError": "503"})
    dead = make_callback(make_task(namespace), "DEAD", errors=("503",) * 6)
    type(dead).objects.filter(pk=dead.pk).update(ended_at=NOW)
    assert found_by(conditions.callbacks_dead, namespace)[0][2] == {"callbacks": 1, "lastError": "503"}


def test_tasks_that_are_due_for_over_a_minute_are_told_of(namespace):
    make_task(namespace, "RECEIVED", at=NOW - ms(50_000), deadline_at=NOW + MINUTE)
    assert found_by(conditions.queue_age, namespace) == []
    make_task(namespace, "RECEIVED", at=NOW - ms(70_000), deadline_at=NOW + MINUTE)
    ((_, subject, details),) = found_by(conditions.queue_age, namespace)
    assert (subject, details) == ("ability:ticket.classify", {"tasks": 1, "oldestSeconds": 70})


@pytest.mark.parametrize(("failed", "told"), [(1, False), (5, True)])
def test_too_many_failures_of_an_ability_are_told_of(namespace, failed, told):
    for number in range(20):
        make_task(namespace, "FAILED" if number < failed else "SUCCEEDED", at=NOW - MINUTE)
    found = found_by(conditions.success_low, namespace)
    assert [one[2]["success"] for one in found] == ([0.75] if told else [])


@pytest.mark.parametrize(("took", "told"), [(150, False), (250, True)])
def test_an_agent_that_is_slower_than_it_was_is_told_of(namespace, took, told):
    def calls(at, lasting):
        for _ in range(20):
            task = make_task(namespace, at=at)
            make_attempt(task, sent_at=at, ended_at=at + ms(lasting))

    calls(NOW - 10 * MINUTE, 100)
    calls(NOW - MINUTE, took)
    found = found_by(conditions.latency_shifted, namespace)
    assert [one[2] for one in found] == ([{"p95Ms": took, "usualP95Ms": 100}] if told else [])


def test_every_kind_has_a_condition_and_words(namespace):
    assert frozenset().union(*(condition.kinds for condition in CONDITIONS)) == set(Alert.Kind.values)
    for kind in Alert.Kind.values:
        said = message_of(Alert(kind=kind, subject="agent:a1", details={}))
        assert "a1" in said.en
        assert "a1" in said.zh


def test_alerts_are_read_and_acknowledged_over_the_api(namespace, operator):  # noqa: F811
    alerts.watch(NOW, looked([trouble(namespace), trouble(namespace, "agent:a2")]))
    page = operator("GET", f"/v1/alerts?namespace={namespace}&limit=1").json()
    rest = operator("GET", f"/v1/alerts?namespace={namespace}&limit=1&cursor={page['nextCursor']}").json()
    assert [one["subject"] for one in page["items"] + rest["items"]] == ["agent:a2", "agent:a1"]
    path = f"/v1/alerts/{page['items'][0]['alertId']}/ack?namespace={namespace}"
    first, second = operator("POST", path).json(), operator("POST", path).json()
    assert first["ackedAt"] == second["ackedAt"] is not None
    assert operator("POST", f"/v1/alerts/{uuid7()}/ack?namespace={namespace}").status_code == 404
    assert operator("GET", f"/v1/alerts?namespace={namespace}&state=shut").status_code == 400


def test_another_namespaces_alert_is_not_there(namespace, operator):  # noqa: F811
    alerts.watch(NOW, looked([trouble(namespace)]))
    assert operator("POST", f"/v1/alerts/{only(namespace).pk}/ack?namespace=default").status_code == 404
    assert operator("GET", f"/v1/alerts?namespace={namespace}&state=ended").json()["items"] == []


def test_support_sees_what_holds_and_says_who_looks_after_it(namespace, client, admin_user):
    alerts.watch(NOW, looked([trouble(namespace, out=2, reason="refused")]))
    client.force_login(admin_user)
    shown = client.get("/console/alerts/").content.decode()
    assert "No instance of a1 takes work any more (refused)" in shown
    client.post(f"/console/alerts/{only(namespace).pk}/ack")
    assert only(namespace).acked_by == "user:admin"
    assert "I look after it" not in client.get("/console/alerts/").content.decode()
    assert client.post(f"/console/alerts/{uuid7()}/ack").status_code == 404


def test_an_owner_sees_the_alerts_of_the_own_teams_agents_only(namespace, client, django_user_model):
    user = django_user_model.objects.create_user("olga")
    Membership.objects.create(user=user, role="owner", team="blue", namespaces=["*"])
    make_agent(namespace, ["OFFLINE"], owner="blue")
    alerts.watch(NOW, looked([trouble(namespace), trouble(namespace, "client:shop")]))
    Alert.objects.filter(subject="client:shop").update(agent_id="")
    client.force_login(user)
    shown = client.get("/console/alerts/").content.decode()
    assert "agent:a1" in shown
    assert "client:shop" not in shown


def test_the_reason_is_in_the_readers_language(namespace):
    alerts.watch(NOW, looked([trouble(namespace, reason="not heard for 30 s")]))
    said = message_of(only(namespace))
    assert "(not heard for 30 s)" in said.en
    assert "not heard" not in said.zh

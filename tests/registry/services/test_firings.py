"""Firings from the change to their end, by the services alone."""

import asyncio
import json
from datetime import timedelta

import pytest
from standardwebhooks import Webhook

from common.clock import now
from common.outbound import Outbound
from registry.hooks import webhook
from registry.hooks.messages import Tried
from registry.hooks.sender import Lane
from registry.models import Hook, HookFiring
from registry.services import firings, hook_events, hooks, instances, judging

pytestmark = pytest.mark.django_db
EVENTS = ["agent.state", "agent.resource", "alert"]
URL = "http://127.0.0.1:9/hook"


@pytest.fixture
def hooked(namespace, place):
    """hooked(**fields) gives a hook of the namespace, and i0 of agent a1."""
    (row,) = place("a1", spec={"resources": {"disk": {"degradedBelow": 10}, "load": {"degradedAbove": 5}}})

    def make(**fields):
        made = hooks.create(namespace, **{"events": EVENTS, "url": URL, **fields}, actor="test", now=now())
        return made, row

    return make


def told(hook):
    return [json.loads(bytes(one.body)) for one in hook.firings.order_by("id")]


def beat(namespace, at=None, **resources):
    instances.heartbeat(namespace, "a1", "i0", {"resources": resources}, now=at or now())


def test_a_judged_move_is_told_to_hooks_of_the_agent_and_of_the_namespace(hooked, namespace, place):
    (everything, row), (mine, _) = hooked(), hooked(agent_id="a1")
    place("a2")
    other = hooks.create(namespace, events=EVENTS, url=URL, agent_id="a2", actor="test", now=now()).hook
    deaf, _ = hooked(events=["alert"])
    judging.judge_instances([row.pk], now() + timedelta(seconds=40))
    for issued in (everything, mine):
        (body,) = told(issued.hook)
        assert (body["messageType"], body["agentId"], body["instanceId"]) == ("agent.state", "a1", "i0")
        assert (body["fromState"], body["toState"], body["reason"]) == ("ONLINE", "OFFLINE", "not heard for 30 s")
    assert told(other) == told(deaf.hook) == []

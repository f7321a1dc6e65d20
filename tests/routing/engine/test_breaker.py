"""Breakers on real trips: who is kept from whom, and that one at a time tries."""

import asyncio
import time

import pytest
from aiohttp import web
from django.db import transaction

from common import clock
from insight.journey import journey
from registry.models import Client, Instance
from registry.services.changes import touch
from routing import breaker
from routing.models import Candidate, Route
from tests.routing.engine.local import wait_until
from tests.routing.engine.test_engine import answers, ok

ONCE = {"maxAttempts": 1}


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch):
    """A task that waits for a breaker is looked at again soon."""
    monkeypatch.setattr("routing.engine.postponing.LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr("routing.engine.postponing.LONGEST_LOOK_S", 0.2)


def route(town, open_ms=600, retry=None, **breaker_figures):
    with transaction.atomic():
        settings = {"breaker": {"openMs": open_ms, **breaker_figures}, "retry": retry or {}}
        made = Route.objects.create(namespace_id=town.namespace, ability="echo", settings=settings)
        Candidate.objects.create(route=made, agent_id="worker")
        touch(town.namespace)


def second_instance(town, url):
    with transaction.atomic():
        agent, now = town.instance().agent, clock.now()
        made = Instance.objects.create(
            agent=agent, instance_id="i2", invoke_url=url, state="ONLINE", state_since=now, registered_at=now
        )
        touch(town.namespace)
    return made


def submit(engine, town, **given):
    task_id = town.submit(**given)
    engine.claim([task_id])
    return task_id


def run(engine, town, **given):
    return town.ended(submit(engine, town, **given))[0]


def fail(engine, town, times=3):
    """So many tasks fail, one after the other."""
    for _ in range(times):
        run(engine, town, retry=ONCE)


def decisions(task_id):
    waiting = [e for e in journey(task_id, clock.now())["events"] if e["event"] == "WAITING"]
    return [e["detail"] for e in waiting]


def test_three_failures_keep_the_next_task_waiting_until_a_trial_succeeds(engine, town):
    route(town)
    town.agent.answer = answers(ok(b"{}", 500), ok(b"{}", 500), ok(b"{}", 500), ok())
    fail(engine, town)
    began = time.monotonic()
    task_id = submit(engine, town)
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"], len(town.agent.received)) == ("SUCCEEDED", 1, 4)
    assert time.monotonic() - began > 0.3
    assert decisions(task_id)[0]["reason"] == "BREAKER_OPEN"
    assert not breaker.view().open(town.namespace)


@pytest.mark.parametrize("status", [400, 404, 422, 429])
def test_refusals_never_open_it(engine, town, status):
    route(town)
    town.agent.answer = answers(*[ok(b"{}", status)] * 6, ok())
    fail(engine, town, 6)
    row = run(engine, town)
    assert (row["state"], len(town.agent.received)) == ("SUCCEEDED", 7)


def test_failures_and_refusals_in_turns_open_it(engine, town):
    route(town, open_ms=60_000)
    town.agent.answer = answers(*[ok(b"{}", 500), ok(b"{}", 400)] * 3)
    fail(engine, town, 5)
    wait_until(lambda: breaker.view().open(town.namespace))


def test_a_trial_that_is_refused_is_no_proof_and_the_next_one_tries(engine, town):
    route(town, open_ms=300)
    town.agent.answer = answers(*[ok(b"{}", 500)] * 3, ok(b"{}", 400), ok())
    fail(engine, town)
    first, second = run(engine, town, retry=ONCE), run(engine, town)
    assert (first["error_code"], second["state"]) == ("REJECTED", "SUCCEEDED")


def test_one_client_s_failures_open_it_for_that_client_first(engine, town):
    route(town, open_ms=60_000)
    Client.objects.create(namespace_id=town.namespace, name="crm", abilities=["*"])
    town.agent.answer = answers(*[ok(b"{}", 500)] * 3, ok())
    fail(engine, town)
    waits, runs = submit(engine, town), submit(engine, town, client="crm")
    assert town.ended(runs)[0]["state"] == "SUCCEEDED"
    wait_until(lambda: "WAITING" in town.events(waits))


def test_a_task_s_retries_at_one_instance_count_once(engine, town):
    route(town, open_ms=60_000)
    town.agent.answer = answers(*[ok(b"{}", 500)] * 3, ok())
    run(engine, town, retry={"maxAttempts": 3, "backoffMs": 1})
    assert run(engine, town)["state"] == "SUCCEEDED"


def test_of_two_that_fail_one_is_still_sent_to(engine, town, serve):
    route(town, open_ms=60_000)
    other = serve(answers(ok(b"{}", 500)))
    second_instance(town, other.url)
    town.agent.answer = answers(ok(b"{}", 500))
    fail(engine, town, 12)
    assert len(breaker.view().open(town.namespace)) >= 2
    fail(engine, town, 2)


def test_of_many_waiting_tasks_one_at_a_time_tries_a_hanging_agent(engine, town):
    route(town, open_ms=300)
    at_once, most = 0, 0

    async def answer(_):
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        await asyncio.sleep(1)
        at_once -= 1
        return web.Response(status=500)

    town.agent.answer = answers(ok(b"{}", 500))
    fail(engine, town)
    town.agent.answer = answer
    tasks = [submit(engine, town) for _ in range(20)]

    def so_far():
        return breaker.view().open(town.namespace), time.time(), [town.events(one) for one in tasks]

    wait_until(lambda: len(town.agent.received) >= 6, 60.0, so_far)
    assert most == 1


def test_whoever_does_not_wait_is_told_that_the_breaker_is_open(engine, town):
    route(town, open_ms=60_000)
    Route.objects.filter(namespace=town.namespace).update(
        settings={"breaker": {"openMs": 60_000}, "whenUnavailable": "fail"}
    )
    with transaction.atomic():
        touch(town.namespace)
    town.agent.answer = answers(ok(b"{}", 500))
    fail(engine, town)
    assert run(engine, town)["error_code"] == "BREAKER_OPEN"


def test_hits_are_the_attempts_that_were_configured_whatever_the_instances(engine, town, serve):
    route(town, retry={"maxAttempts": 3, "backoffMs": 1, "jitterMs": 0})
    other = serve(answers(ok(b"{}", 503)))
    second_instance(town, other.url)
    town.agent.answer = answers(ok(b"{}", 503))
    row = run(engine, town)
    attempts = [one["code"] for one in journey(row["id"], clock.now())["attempts"]]
    assert (row["attempts"], attempts) == (3, ["SERVICE_UNAVAILABLE"] * 3)
    assert len(town.agent.received) + len(other.received) == 3

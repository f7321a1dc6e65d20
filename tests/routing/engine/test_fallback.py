"""Tasks that fall back: on other abilities, on what was good before, on what was given."""

import time

import pytest
from django.db import transaction

from common import clock
from common.json import parse
from insight.journey import journey
from registry.models import Agent, Capability, Instance
from registry.services.changes import touch
from routing.models import Candidate, Route
from tests.routing.engine.test_breaker import run, submit
from tests.routing.engine.test_engine import answers, ok
from tests.routing.engine.test_streams import stream
from tests.routing.services.world import rows

ONCE = {"maxAttempts": 1}


@pytest.fixture
def failing(town):
    town.agent.answer = answers(ok(b'{"error": {"message": "broken", "details": {"dependency": "llm"}}}', 500))
    return town


def stand_in(town, ability="other", answer=None, **spec):
    """An agent of its own behind another ability."""
    server = town.serve(answer or answers(ok(b'{"y": 2}')))
    with transaction.atomic():
        agent = Agent.objects.create(namespace_id=town.namespace, agent_id=ability, manifest={"spec": {}}, version="1")
        Capability.objects.create(agent=agent, name=ability, input_schema=spec.pop("input", None), spec=spec)
        now = clock.now()
        Instance.objects.create(
            agent=agent, instance_id="i1", invoke_url=server.url, state="ONLINE", state_since=now, registered_at=now
        )
        touch(town.namespace)
    return server


def route(town, **settings):
    with transaction.atomic():
        made = Route.objects.create(namespace_id=town.namespace, ability="echo", settings=settings)
        Candidate.objects.create(route=made, agent_id="worker")
        touch(town.namespace)


def result(row):
    return parse(bytes(row["result"]))


def told(row):
    return row["state"], result(row)["data"], result(row)["degraded"], result(row)["degradedBy"]


def test_a_substitute_takes_over(engine, failing):
    other = stand_in(failing)
    row = run(engine, failing, retry=ONCE, fallback={"substitutes": ["other"]})
    by = {"kind": "substitute", "ability": "other", "agentId": "other"}
    assert told(row) == ("SUCCEEDED", {"y": 2}, True, by)
    assert result(row)["agent"]["agentId"] == "other"
    assert parse(other.received[0].body)["target"]["ability"] == "other"
    assert failing.events(row["id"])[3:5] == ["FALLBACK", "ROUTED"]


def test_the_journey_says_what_was_fallen_back_on_and_why(engine, failing):
    stand_in(failing)
    row = run(engine, failing, retry=ONCE, fallback={"substitutes": ["gone", "other"]})
    document = journey(row["id"], clock.now())
    [event] = [e for e in document["events"] if e["event"] == "FALLBACK"]
    assert (event["detail"]["reason"], event["detail"]["fallback"]["ability"]) == ("INTERNAL_ERROR", "other")
    assert event["detail"]["skipped"] == [{"ability": "gone", "reason": "UNKNOWN"}]


def test_a_substitute_fails_too_and_the_task_ends_with_its_own_cause(engine, failing):
    stand_in(failing, answer=answers(ok(b"{}", 400)))
    row = run(engine, failing, retry=ONCE, fallback={"substitutes": ["other"]})
    assert (row["state"], row["error_code"], row["attempts"]) == ("FAILED", "INTERNAL_ERROR", 2)


def test_a_substitute_is_retried_by_its_own_count(engine, failing):
    other = stand_in(failing, answer=answers(ok(b"{}", 500), ok(b"{}", 500), ok(b'{"y": 2}')))
    row = run(engine, failing, retry={"backoffMs": 1}, fallback={"substitutes": ["other"]})
    assert (row["state"], row["attempts"], len(other.received)) == ("SUCCEEDED", 6, 3)


def test_a_substitute_whose_dependency_failed_is_passed_over(engine, failing):
    other, third = stand_in(failing, dependencies=["llm"]), stand_in(failing, "third", dependencies=["db"])
    row = run(engine, failing, retry=ONCE, fallback={"substitutes": ["other", "third"]})
    assert (row["agent_id"], len(other.received), len(third.received)) == ("third", 0, 1)


def test_a_substitute_whose_dependency_is_down_in_a_heartbeat_is_passed_over(engine, failing):
    other = stand_in(failing, dependencies=["db"])
    said = {"status": "ok", "components": {"db": "down", "llm": "ok"}}
    failing.change(failing.instance_of("worker"), heartbeat=said)
    row = run(engine, failing, retry=ONCE, fallback={"substitutes": ["other"], "static": 1})
    assert (told(row)[1], len(other.received)) == (1, 0)


def test_a_payload_that_a_substitute_does_not_take_is_not_sent(engine, failing):
    other = stand_in(failing, input={"type": "object", "required": ["z"]})
    row = run(engine, failing, retry=ONCE, fallback={"substitutes": ["other"], "static": 1})
    assert (told(row)[1], len(other.received)) == (1, 0)


def test_with_nobody_there_it_falls_back_at_once(engine, town):
    stand_in(town)
    town.change(town.instance_of("worker"), state="OFFLINE")
    began = time.monotonic()
    row = run(engine, town, fallback={"substitutes": ["other"]})
    assert told(row)[:3] == ("SUCCEEDED", {"y": 2}, True)
    assert time.monotonic() - began < 5


def test_a_static_answer_arrives_as_it_was_written(engine, failing):
    row = run(engine, failing, retry=ONCE, fallback={"static": {"category": "unknown", "n": 1}})
    by = {"kind": "static", "ability": "echo", "agentId": None}
    assert told(row) == ("SUCCEEDED", {"category": "unknown", "n": 1}, True, by)
    assert result(row)["agent"] is None
    [attempt] = rows("SELECT outcome, code FROM routing_attempt WHERE task_id = %s", row["id"])
    assert attempt == {"outcome": "FAILED", "code": "INTERNAL_ERROR"}


def test_a_route_s_fallback_serves_requests_that_name_none(engine, failing):
    route(failing, fallback={"static": {"y": 0}}, retry={"maxAttempts": 1})
    assert told(run(engine, failing))[1] == {"y": 0}


def test_an_answer_that_hangs_until_the_deadline_is_stood_in_for(engine, town, serve):
    async def hang(_):
        import asyncio

        await asyncio.sleep(30)

    town.agent.answer = hang
    row = run(engine, town, timeoutBudgetMs=400, fallback={"static": 1, "substitutes": ["other"]})
    assert told(row)[:2] == ("SUCCEEDED", 1)


def test_the_last_good_result_of_the_same_payload_stands_in(engine, town):
    town.agent.answer = answers(ok(b'{"y": 7}'), ok(b"{}", 500))
    asked = {"fallback": {"cachedResult": True, "static": 0}, "retry": ONCE}
    good = run(engine, town, payload={"x": 1, "z": 2.0}, **asked)
    assert told(good)[2] is False
    same, other = run(engine, town, payload={"z": 2, "x": 1}, **asked), run(engine, town, payload={"x": 2}, **asked)
    assert told(same)[:2] == ("SUCCEEDED", {"y": 7})
    assert (result(same)["degradedBy"]["kind"], told(other)[1]) == ("cached", 0)


def test_a_result_that_is_too_old_does_not(engine, town):
    route(town, fallback={"cachedResultMs": 1, "static": 0}, retry={"maxAttempts": 1})
    town.agent.answer = answers(ok(b'{"y": 7}'), ok(b"{}", 500))
    run(engine, town)
    time.sleep(0.005)
    assert told(run(engine, town))[1] == 0


def test_a_failure_that_is_reported_later_falls_back_too(engine, town, report):
    town.agent.answer = answers(ok(b"{}", 202))
    task_id = submit(engine, town, retry=ONCE, fallback={"static": 5})
    report(town, task_id, b'{"status": "FAILED", "error": {"code": "X"}}')
    assert told(town.ended(task_id)[0])[1] == 5


@pytest.fixture
def report():
    from routing.services import report as reporting
    from tests.routing.engine.local import wait_until

    def tell(town, task_id, body):
        wait_until(lambda: "RUNNING" in town.events(task_id))
        [row] = rows("SELECT key FROM routing_attempt WHERE task_id = %s", task_id)
        reporting.result(task_id, row["key"], body, clock.now())

    return tell


def test_what_may_have_had_its_effect_is_not_done_again_by_a_substitute(engine, town, serve):
    other = stand_in(town)
    Capability.objects.filter(agent__namespace=town.namespace, name="echo").update(spec={"sideEffects": True})
    with transaction.atomic():
        touch(town.namespace)
    town.agent.answer = answers(ok(b"{}", 504))
    row = run(engine, town, retry=ONCE, fallback={"substitutes": ["other"]})
    assert (row["error_code"], len(other.received)) == ("TIMEOUT", 0)


def test_the_part_that_came_of_a_stream_that_broke_off_is_better_than_nothing(engine, town):
    town.agent.answer = stream(b'{"t":1}\n{"t":2}\n')
    row = run(engine, town, retry=ONCE, fallback={"partial": True})
    assert told(row)[:2] == ("SUCCEEDED", [{"t": 1}, {"t": 2}])
    assert result(row)["degradedBy"]["kind"] == "partial"


def test_where_nothing_was_kept_there_is_no_part(engine, failing):
    assert run(engine, failing, retry=ONCE, fallback={"partial": True})["error_code"] == "INTERNAL_ERROR"


def test_a_substitute_on_the_call_path_is_a_loop_too(engine, failing):
    other = stand_in(failing)
    task_id = failing.submit(retry=ONCE, fallback={"substitutes": ["other"]})
    rows_changed(task_id, ["other", "other"])
    engine.claim([task_id])
    [row] = failing.ended(task_id)
    assert (row["error_code"], len(other.received)) == ("INTERNAL_ERROR", 0)


def rows_changed(task_id, path):
    from routing.models import Task

    Task.objects.filter(id=task_id).update(call_path=path)

"""Tasks go through the engine: real database, real sockets, agents of every temper."""

import asyncio
import datetime as dt
import time
from decimal import Decimal

import pytest
from aiohttp import web

from common import clock
from common.json import parse
from common.signing import verify
from insight.journey import journey
from tests.routing.engine.local import Received, wait_until


def answers(*responses):
    """Answer with each in turn, the last one again and again."""
    left = list(responses)

    async def answer(_: Received) -> web.Response:
        status, body, headers = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=status, body=body, headers=headers, content_type="application/json")

    return answer


def ok(body=b'{"y": 1}', status=200, headers=None):
    return status, body, headers


def test_a_task_is_answered_and_its_journey_written(engine, town):
    task_id = town.submit()
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"], row["worker"]) == ("SUCCEEDED", 1, engine.boot_id)
    assert town.events(task_id) == ["RECEIVED", "ROUTED", "DISPATCHED", "SUCCEEDED"]
    assert parse(bytes(row["result"]))["data"] == {"y": 1}


def test_the_payload_arrives_byte_for_byte_and_signed(engine, town):
    task_id = town.submit({"n": 9007199254740993, "t": "😀"}, correlationId="o-1", metadata={"userId": "u"})
    engine.claim([task_id])
    [sent] = town.agent.wait_for(1)
    body = parse(sent.body)
    assert b'"payload":{"n":9007199254740993,"t":"\xf0\x9f\x98\x80"}' in sent.body
    assert (body["attempt"], body["idempotencyKey"], body["metadata"]) == (1, "o-1", {"userId": "u"})
    assert body["resultUrl"].endswith(f"/v1/tasks/{task_id}/result")
    assert body["resultToken"]
    assert sent.headers["Reach-Call-Path"] == "worker"
    verify("POST", sent.path, "", sent.body, sent.headers, lambda _: ["agent secret"], now=clock.now())


def test_the_engine_looks_for_itself_when_no_nudge_comes(engine, town):
    task_id = town.submit()
    assert town.ended(task_id, seconds=5)[0]["state"] == "SUCCEEDED"


def test_a_passing_failure_is_retried(engine, town):
    town.agent.answer = answers(ok(b"{}", 503), ok())
    task_id = town.submit(retry={"backoffMs": 10})
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"], len(town.agent.received)) == ("SUCCEEDED", 2, 2)
    assert "RETRY_WAIT" in town.events(task_id)


def test_attempts_are_counted_and_end(engine, town):
    town.agent.answer = answers(ok(b"{}", 500))
    task_id = town.submit(retry={"backoffMs": 10, "maxAttempts": 2})
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["state"], row["error_code"], len(town.agent.received)) == ("FAILED", "INTERNAL_ERROR", 2)


def test_attempts_over_two_instances_are_as_many_as_allowed_and_each_is_on_record(engine, town):
    town.agent.answer = answers(ok(b"{}", 503))
    other = town.serve(answers(ok(b"{}", 503)))
    town.add_agent("second", other.url)
    task_id = town.submit(retry={"backoffMs": 10, "maxAttempts": 3})
    engine.claim([task_id])
    town.ended(task_id)
    received = [*town.agent.received, *other.received]
    assert len(received) == 3
    assert len({told.headers["Idempotency-Key"] for told in received}) == 1
    told = journey(task_id, clock.now())["attempts"]
    assert [(one["attempt"], one["code"]) for one in told] == [(n, "SERVICE_UNAVAILABLE") for n in (1, 2, 3)]


def test_an_agent_that_redirects_is_told_the_remedy_and_nothing_goes_elsewhere(engine, town):
    other = town.serve()
    town.agent.answer = answers(ok(b"", 307, {"Location": f"{other.url}/"}))
    task_id = town.submit()
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["error_code"], other.received) == ("BAD_RESPONSE", [])
    assert "must be the final one" in row["error_message"]


def test_retry_after_is_waited_for(engine, town):
    town.agent.answer = answers(ok(b"{}", 429, {"Retry-After": "2"}), ok())
    task_id = town.submit(retry={"backoffMs": 1})
    engine.claim([task_id])
    town.ended(task_id)
    first, second = town.agent.received
    assert second.at - first.at >= 2.0


def test_a_hanging_agent_times_out(engine, town):
    async def hang(_: Received) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    town.agent.answer = hang
    task_id = town.submit(timeoutMs=200, retry={"maxAttempts": 1})
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["state"], row["error_code"]) == ("TIMEOUT", "TIMEOUT")


def test_nobody_there_is_unreachable(engine, town):
    town.agent.stop()
    task_id = town.submit(retry={"maxAttempts": 1})
    engine.claim([task_id])
    [row] = town.ended(task_id)
    assert (row["state"], row["error_code"]) == ("FAILED", "UNREACHABLE")


def test_a_body_cut_short_is_a_bad_response(engine, town, cutting_server):
    town.point_to(cutting_server)
    task_id = town.submit()
    engine.claim([task_id])
    assert town.ended(task_id)[0]["error_code"] == "BAD_RESPONSE"


def test_202_holds_nothing_and_waits_for_the_report(engine, town):
    town.agent.answer = answers(ok(b"{}", 202))
    task_id = town.submit()
    engine.claim([task_id])
    wait_until(lambda: "RUNNING" in town.events(task_id))
    wait_until(lambda: engine.held == 0)


def test_a_task_waits_for_somebody_and_uses_no_attempt(engine, town):
    instance = town.instance()
    town.change(instance, state="OFFLINE")
    task_id = town.submit()
    engine.claim([task_id])
    wait_until(lambda: "WAITING" in town.events(task_id))
    town.change(instance, state="ONLINE")
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"]) == ("SUCCEEDED", 1)
    assert town.events(task_id).count("WAITING") == 1


WORDS = {
    "OFFLINE": "it is offline",
    "BUSY": "it works on as much as it may",
    "NO_INSTANCE": "no instance is registered",
}


@pytest.mark.parametrize("reason", WORDS)
def test_a_waiting_tasks_journey_names_the_reason_as_a_code_and_in_plain_words(engine, town, reason):
    async def hang(_: Received) -> web.Response:
        await asyncio.sleep(3)
        return web.json_response({})

    town.agent.answer = hang
    instance = town.instance()
    if reason == "BUSY":
        town.change(instance, max_concurrency=1)
        engine.claim([town.submit()])
        town.agent.wait_for(1)
    elif reason == "OFFLINE":
        town.change(instance, state="OFFLINE")
    else:
        town.remove(instance)
    task_id = town.submit()
    engine.claim([task_id])
    wait_until(lambda: "WAITING" in town.events(task_id))
    found = journey(task_id, clock.now())
    assert found["events"][-1]["detail"]["reason"] == reason
    [decision] = found["decisions"]
    assert [one["rejected"] for one in decision["candidates"]] == ([reason] if reason != "NO_INSTANCE" else [])
    assert WORDS[reason] in found["summary"]["cause"]["en"]


def test_a_busy_instance_is_never_given_more_than_its_share(engine, town):
    running, most = 0, 0

    async def count(_: Received) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1
        return web.json_response({})

    town.change(town.instance(), max_concurrency=5)
    town.agent.answer = count
    began = time.monotonic()
    tasks = [town.submit() for _ in range(60)]
    engine.claim(tasks)
    town.ended(*tasks)
    assert most == 4
    assert time.monotonic() - began < 14  # by polls alone it would take 15 s


def test_a_cancelled_task_is_not_sent(engine, town):
    from routing.services.cancel import cancel

    task_id = town.submit(notBefore=clock.rfc3339(clock.now() + dt.timedelta(seconds=1)))
    cancel(task_id, "test", clock.now())
    engine.claim([task_id])
    time.sleep(1.5)
    assert town.agent.received == []


def test_the_callback_is_delivered_at_once_and_signed(engine, town):
    from standardwebhooks import Webhook

    receiver = town.serve()
    task_id = town.submit(callback={"type": "http", "url": f"{receiver.url}/cb", "authToken": "t0ken"})
    engine.claim([task_id])
    [told] = receiver.wait_for(1)
    Webhook(town.secret).verify(told.body.decode(), dict(told.headers))
    assert parse(told.body)["state"] == "SUCCEEDED"
    assert told.headers["Authorization"] == "Bearer t0ken"
    assert told.headers["Reach-Delivery-Attempt"] == "1"


def test_many_tasks_at_once_all_end(engine, town):
    receiver = town.serve()
    callback = {"type": "http", "url": f"{receiver.url}/cb"}
    tasks = [town.submit({"n": n}, callback=callback) for n in range(200)]
    engine.claim(tasks)
    rows = town.ended(*tasks)
    assert {row["state"] for row in rows} == {"SUCCEEDED"}
    assert len(town.agent.received) == 200
    assert len(receiver.wait_for(200)) == 200


def test_a_stop_lets_what_runs_finish(engine, town):
    async def slow(_: Received) -> web.Response:
        await asyncio.sleep(0.5)
        return web.json_response({})

    town.agent.answer = slow
    task_id = town.submit()
    engine.claim([task_id])
    town.agent.wait_for(1)
    engine.stop(5.0)
    assert town.ended(task_id, seconds=0.1)[0]["state"] == "SUCCEEDED"


def test_the_room_is_never_overdrawn(engine, town):
    async def slow(_: Received) -> web.Response:
        await asyncio.sleep(0.1)
        return web.json_response({})

    engine.room = 10
    town.agent.answer = slow
    tasks = [town.submit() for _ in range(40)]
    assert engine.claim(tasks) <= 10
    town.ended(*tasks)
    wait_until(lambda: engine.held == 0)


def test_a_success_is_charged_by_the_declared_price(engine, town):
    town.change(town.instance(), cost={"perCall": 0.002, "perToken": 0.001, "currency": "USD"})
    town.agent.answer = answers(ok(b'{"status": "SUCCEEDED", "data": 1, "usage": {"tokens": 3}}'))
    task_id = town.submit()
    engine.claim([task_id])
    assert parse(bytes(town.ended(task_id)[0]["result"]))["cost"] == {"amount": Decimal("0.005"), "currency": "USD"}

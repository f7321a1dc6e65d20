"""Answers in chunks: relayed while they come, the last one the result, and what is left of one that breaks off."""

import asyncio
import threading

import pytest
from aiohttp import web

from common.json import parse
from insight.journey import journey
from routing.handoff import TaskEvents
from tests.routing import handoff_calls
from tests.routing.engine.local import wait_until
from tests.routing.services.world import events, rows

NDJSON, SSE = "application/x-ndjson", "text/event-stream"


def stream(*parts, kind=NDJSON, then=None):
    """Answers with these parts; `then` is awaited before the end."""

    async def body():
        for part in parts:
            yield part
            await asyncio.sleep(0)
        if then is not None:
            await then()

    async def answer(_):
        return web.Response(body=body(), headers={"Content-Type": kind})

    return answer


async def breaks_off():
    raise ConnectionResetError


def chunks_of(task_id):
    found = rows("SELECT detail FROM routing_event WHERE task_id = %s AND event = 'CHUNK' ORDER BY seq", task_id)
    return [chunk for row in found for chunk in parse(row["detail"].encode())["chunks"]]


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (NDJSON, (b'{"t":"he"}\n{"t":', b'"llo"}\n', b'{"status":"SUCCEEDED","data":{"y":1.10}}\n')),
        (
            SSE,
            (b'data: {"t":"he"}\n', b'\ndata: {"t":"llo"}\n\n', b'data: {"status":"SUCCEEDED","data":{"y":1.10}}\n\n'),
        ),
    ],
)
def test_chunks_are_events_and_the_last_one_is_the_result(engine, town, kind, parts):
    town.agent.answer = stream(*parts, kind=kind)
    task_id = town.submit()
    [row] = town.ended(task_id)
    assert b'"data":{"y":1.10}' in bytes(row["result"])
    assert chunks_of(task_id) == [{"t": "he"}, {"t": "llo"}]
    assert events(task_id)[-1] == "SUCCEEDED"


def test_a_success_without_data_has_what_was_streamed(engine, town):
    town.agent.answer = stream(b'{"t":1}\n{"t":2}\n{"status":"SUCCEEDED"}\n')
    [row] = town.ended(town.submit())
    assert parse(bytes(row["result"]))["data"] == [{"t": 1}, {"t": 2}]


def test_chunks_are_relayed_while_the_agent_still_works(engine, town):
    go_on = threading.Event()

    async def wait():
        await asyncio.to_thread(go_on.wait, 10)

    town.agent.answer = stream(b'{"t":1}\n', then=wait)
    task_id = town.submit()
    wait_until(lambda: chunks_of(task_id) == [{"t": 1}])
    assert rows("SELECT state FROM routing_task WHERE id = %s", task_id)[0]["state"] == "RUNNING"
    go_on.set()
    town.ended(task_id)


@pytest.mark.parametrize("then", [None, breaks_off])
def test_a_stream_without_its_end_is_a_failure_that_keeps_the_part(engine, town, then):
    town.agent.answer = stream(b'{"t":1}\n', b'{"t":2}\n', then=then)
    [row] = town.ended(town.submit())
    assert (row["state"], row["error_code"]) == ("FAILED", "BAD_RESPONSE")
    assert parse(row["error_details"].encode())["partial"] == [{"t": 1}, {"t": 2}]


def test_a_stream_that_falls_silent_times_out_and_keeps_the_part(engine, town):
    town.agent.answer = stream(b'{"t":1}\n', then=lambda: asyncio.sleep(30))
    [row] = town.ended(town.submit(timeoutMs=1000, retry={"maxAttempts": 1}))
    assert (row["state"], row["error_code"]) == ("TIMEOUT", "TIMEOUT")
    assert parse(row["error_details"].encode())["partial"] == [{"t": 1}]


def test_a_stream_that_only_keeps_its_connection_alive_is_given_up_and_not_shown_twice(engine, town, settings):
    settings.REACH_STREAM_IDLE_MS = 500

    async def alive():
        yield b'data: {"t":1}\n\n'
        while True:
            await asyncio.sleep(0.02)
            yield b": still here\n\n"

    async def answer(_):
        return web.Response(body=alive(), headers={"Content-Type": SSE})

    town.agent.answer = answer
    [row] = town.ended(town.submit(timeoutMs=600_000, retry={"backoffMs": 0}))
    assert (row["state"], row["error_code"], row["attempts"]) == ("TIMEOUT", "TIMEOUT", 1)
    assert chunks_of(row["id"]) == [{"t": 1}]
    assert parse(row["error_details"].encode())["partial"] == [{"t": 1}]


def test_a_stream_that_breaks_before_its_first_chunk_is_tried_again(engine, town):
    town.agent.answer = stream(b": wait\n\n", kind=SSE, then=lambda: asyncio.sleep(600))
    task_id = town.submit(timeoutMs=1000, retry={"maxAttempts": 2, "backoffMs": 0})
    [row] = town.ended(task_id)
    assert (row["state"], row["attempts"]) == ("TIMEOUT", 2)


def test_an_agent_that_says_retryable_after_its_chunks_is_obeyed(engine, town):
    again = b'{"status":"FAILED","error":{"code":"X","message":"busy","retryable":true}}\n'
    town.agent.answer = stream(b'{"t":1}\n', again)
    [row] = town.ended(town.submit(retry={"maxAttempts": 2, "backoffMs": 0}))
    assert (row["state"], row["attempts"]) == ("FAILED", 2)


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([b'{"t":1}\n{"status":"SUCCEEDED","data":5}\n', b'{"t":2}\n'], [{"t": 1}]),
        ([b'{"t":"' + b"x" * 2**20 + b'"}\r\n', b'{"status":"SUCCEEDED","data":5}\r\n'], [{"t": "x" * 2**20}]),
        (["é\n".encode()[:1], "é\n".encode()[1:], b'{"status":"SUCCEEDED","data":5}'], ["é"]),
    ],
)
def test_streams_of_odd_forms_come_to_their_result(engine, town, parts, shown):
    town.agent.answer = stream(*parts)
    [row] = town.ended(town.submit())
    assert (row["state"], parse(bytes(row["result"]))["data"]) == ("SUCCEEDED", 5)
    assert chunks_of(row["id"]) == shown


def test_who_follows_the_task_gets_them_as_chunk_and_the_journey_leaves_them_out(engine, town):
    town.agent.answer = stream(b'{"t":1}\n{"status":"SUCCEEDED","data":1}\n')
    task_id = town.submit()
    town.ended(task_id)
    followed = handoff_calls.respond(TaskEvents(task_id, 0))
    assert "chunk" in [name for _, name in followed.events()]
    assert b'{"chunks":[{"t":1}]}' in followed.body
    assert "CHUNK" not in [event["event"] for event in journey(task_id, rows("SELECT now()")[0]["now"])["events"]]

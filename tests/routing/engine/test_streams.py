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


def test_who_follows_the_task_gets_them_as_chunk_and_the_journey_leaves_them_out(engine, town):
    town.agent.answer = stream(b'{"t":1}\n{"status":"SUCCEEDED","data":1}\n')
    task_id = town.submit()
    town.ended(task_id)
    followed = handoff_calls.respond(TaskEvents(task_id, 0))
    assert "chunk" in [name for _, name in followed.events()]
    assert b'{"chunks":[{"t":1}]}' in followed.body
    assert "CHUNK" not in [event["event"] for event in journey(task_id, rows("SELECT now()")[0]["now"])["events"]]

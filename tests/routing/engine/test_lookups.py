"""A retry whose earlier attempt may have run: the agent is asked first."""

import pytest
from aiohttp import web

from common.json import parse
from routing.services.sweep import sweep
from tests.routing.engine.local import wait_until
from tests.routing.services.world import rows, task


@pytest.fixture
def risky(town):
    """The town's agent, with side effects and a lookup; breaks off the first attempt of each task."""
    town.remove(town.instance())
    instance = town.add_agent("payer", town.agent.url, sideEffects=True)
    town.change(instance, lookup_url=f"{town.agent.url}/lookup")
    return town


def agent(town, *lookups):
    """Breaks off the first POST, answers later ones; gives each lookup in turn, the last again and again."""
    left, posts = list(lookups), []

    async def answer(received):
        if received.path == "/lookup":
            status, body = left.pop(0) if len(left) > 1 else left[0]
            return web.json_response(body, status=status)
        posts.append(received)
        return web.Response(status=504) if len(posts) == 1 else web.json_response({"y": 2})

    town.agent.answer = answer
    return posts


def submit(town, **fields):
    return town.submit(retry={"backoffMs": 0, **fields})


def test_a_processed_task_is_completed_from_the_lookup(engine, risky):
    posts = agent(risky, (200, {"processed": True, "status": "SUCCEEDED", "data": {"y": 1}}))
    task_id = submit(risky)
    [row] = risky.ended(task_id)
    assert (row["state"], parse(bytes(row["result"]))["data"], len(posts)) == ("SUCCEEDED", {"y": 1}, 1)
    detail = rows("SELECT detail FROM routing_event WHERE task_id = %s AND event = 'SUCCEEDED'", task_id)[0]["detail"]
    assert parse(detail.encode()) == {"by": "lookup"}


def test_a_processed_failure_is_not_repeated(engine, risky):
    posts = agent(risky, (200, {"processed": True, "status": "FAILED", "error": {"code": "CARD", "message": "no"}}))
    [row] = risky.ended(submit(risky))
    assert (row["state"], row["error_code"], len(posts)) == ("FAILED", "AGENT_FAILED", 1)


@pytest.mark.parametrize("said", [(200, {"processed": False}), (404, {})])
def test_what_was_not_processed_is_sent_again(engine, risky, said):
    posts = agent(risky, said)
    [row] = risky.ended(submit(risky))
    assert (row["state"], row["attempts"], len(posts)) == ("SUCCEEDED", 2, 2)


def test_while_the_lookup_is_silent_nothing_is_repeated(engine, risky):
    posts = agent(risky, (500, {}), (200, {"processed": False}))
    task_id = submit(risky)
    wait_until(lambda: "WAITING" in risky.events(task_id))
    assert (task(task_id)["attempts"], len(posts)) == (1, 1)
    assert risky.ended(task_id)[0]["state"] == "SUCCEEDED"


def test_a_lookup_that_stays_silent_leaves_it_at_maybe(engine, risky):
    agent(risky, (500, {}))
    task_id = submit(risky)
    wait_until(lambda: "WAITING" in risky.events(task_id))
    sweep(task(task_id)["deadline_at"])
    [row] = risky.ended(task_id)
    assert (row["state"], row["error_code"], row["error_retryable"]) == ("TIMEOUT", "MAYBE_RAN", False)


def test_it_is_asked_once_before_giving_up(engine, risky):
    agent(risky, (200, {"processed": True, "status": "SUCCEEDED", "data": {"y": 1}}))
    [row] = risky.ended(submit(risky, maxAttempts=1))
    assert (row["state"], row["attempts"]) == ("SUCCEEDED", 1)


def test_without_a_lookup_side_effects_are_not_repeated(engine, risky):
    risky.change(risky.instance(), lookup_url="")
    posts = agent(risky, (404, {}))
    [row] = risky.ended(submit(risky))
    assert (row["error_code"], len(posts)) == ("MAYBE_RAN", 1)

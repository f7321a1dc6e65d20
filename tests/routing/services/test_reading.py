"""Lists and documents as callers get them."""

import datetime as dt

from common import clock
from common.json import parse
from routing import documents, selectors
from tests.routing.services.world import World


def test_the_document_of_an_ended_task_holds_what_the_contract_names(world: World) -> None:
    callback = {"type": "http", "url": "https://shop.example/cb"}
    sent = world.running(callback=callback, correlationId="o1", metadata={"source": "crm", "userId": "u1"})
    world.settle(sent)
    document = parse(documents.task_document(selectors.task(sent.task.task_id) or {}))
    assert (document["state"], document["correlationId"], document["priority"]) == ("SUCCEEDED", "o1", "normal")
    assert document["metadata"] == {"source": "crm", "userId": "u1"}
    assert set(document["timings"]) == set(documents.TIMINGS)
    assert document["callback"]["state"] == "PENDING"
    assert document["result"]["status"] == "SUCCEEDED"
    assert document["error"] is document["late"] is None


def test_an_open_task_shows_no_end(world: World) -> None:
    document = parse(documents.task_document(selectors.task(world.accept().task_id) or {}))
    assert (document["endedAt"], document["timings"]["totalMs"], document["callback"]["state"]) == (None, None, "NONE")


def test_others_tasks_are_not_there(world: World) -> None:
    task_id = world.accept().task_id
    assert selectors.task(task_id, namespace=world.namespace, client="shop")
    assert selectors.task(task_id, namespace=world.namespace, client="other") is None
    assert selectors.task(task_id, namespace="elsewhere") is None


def test_pages_stay_whole_while_rows_arrive(world: World) -> None:
    ids = [world.accept().task_id for _ in range(5)]
    first = selectors.tasks(world.namespace, limit=2)
    world.accept()
    second = selectors.tasks(world.namespace, limit=9, before=first[-1]["id"])
    assert [row["id"] for row in first + second] == ids[::-1]


def test_every_filter_finds_its_own(world: World) -> None:
    sent = world.running(correlationId="a", traceId="t-1")
    world.settle(sent)
    waiting = world.accept(correlationId="b", client="other").task_id
    found = {
        name: [row["id"] for row in selectors.tasks(world.namespace, **{name: value})]
        for name, value in {
            "state": "SUCCEEDED", "client": "shop", "agent_id": "worker", "correlation_id": "a", "trace_id": "t-1",
        }.items()
    }  # fmt: skip
    assert found == {name: [sent.task.task_id] for name in found}
    assert [row["id"] for row in selectors.tasks(world.namespace, state="RECEIVED")] == [waiting]
    assert selectors.tasks(world.namespace, created_after=clock.now() + dt.timedelta(hours=1)) == []


def test_a_trace_is_a_tree(world: World) -> None:
    root = world.accept(traceId="tr").task_id
    world.accept(traceId="tr", parentTaskId=str(root))
    [top] = selectors.tree(selectors.trace(world.namespace, "tr"))
    assert (top["id"], len(top["children"])) == (root, 1)

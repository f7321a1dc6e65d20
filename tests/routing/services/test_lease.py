"""Tasks that agents fetch: offered, leased, acknowledged or lost."""

import dataclasses
import datetime as dt
import uuid

import pytest

from common import clock
from common.errors import StateConflict
from common.json import parse
from routing.pulling import offer_to, read_offered
from routing.services import lease, report
from routing.services.lease import Fetcher, Leased
from routing.services.sweep import sweep
from routing.services.waiting import put_back
from routing.snapshot import AgentView, CandidateView, CapabilityView, InstanceView
from routing.trip import Claimed
from tests.routing.services.world import ROUTE, World, events, rows, task

LATER = dt.timedelta(seconds=31)
INSTANCES = (InstanceView("i1", "worker", ""), InstanceView("i2", "worker", "", labels={"gpu": True}))


@pytest.fixture(autouse=True)
def pulling(world: World) -> World:
    """The world's agent fetches its tasks, by two instances."""
    declare(world)
    return world


def declare(world: World, capability: CapabilityView | None = None, **agent: object) -> None:
    view = AgentView("worker", channels=("pull",), instances=INSTANCES, **agent)  # type: ignore[arg-type]
    candidates = (CandidateView(view, capability or CapabilityView("echo")),)
    world.abilities["echo"] = dataclasses.replace(world.abilities["echo"], route=ROUTE, candidates=candidates)


def offered(world: World, agent: str = "worker", **fields: object) -> uuid.UUID:
    """A task that routing found to be this agent's to fetch."""
    held: Claimed = world.claim(world.accept(**fields).task_id)
    put_back([(held.task_id, clock.now() + LATER, {"reason": offer_to(agent)})], boot_id=world.boot)
    return held.task_id


def take(world: World, most: int = 10, instance: str = "i1") -> list[Leased]:
    return lease.take(Fetcher(world.namespace, "worker", instance), most, clock.now())


def attempt(task_id: uuid.UUID) -> dict:
    return rows("SELECT * FROM routing_attempt WHERE task_id = %s ORDER BY number DESC", task_id)[0]


def test_an_offered_task_is_handed_out_with_its_attempt_on_record(world: World) -> None:
    task_id = offered(world)
    [leased] = take(world)
    row, body = attempt(task_id), parse(leased.body)
    assert (row["channel"], row["worker"], row["instance_id"]) == ("pull", None, "i1")
    assert parse(row["decision"].encode())["chosen"] == {"agentId": "worker", "instanceId": "i1"}
    assert (body["taskId"], body["attemptKey"], body["payload"]) == (str(task_id), str(leased.attempt_key), {"x": 1})
    assert clock.parse_time(body["leaseUntil"]) - row["sent_at"] <= lease.RECEIPT_WITHIN
    assert events(task_id) == ["RECEIVED", "WAITING", "ROUTED", "DISPATCHED"]


def test_a_task_is_handed_out_once(world: World) -> None:
    offered(world)
    assert (len(take(world)), len(take(world, instance="i2"))) == (1, 0)


def test_no_more_is_handed_out_than_the_ability_may_have_in_flight(world: World) -> None:
    route = dataclasses.replace(ROUTE, limits={"maxInflight": 3})
    world.abilities["echo"] = dataclasses.replace(world.abilities["echo"], route=route)
    for _ in range(5):
        offered(world)
    assert [len(take(world, most)) for most in (2, 10, 10)] == [2, 1, 0]
    assert len(take(world, instance="i2")) == 0


def test_what_was_not_offered_to_this_agent_stays(world: World) -> None:
    offered(world, agent="another")
    world.accept()
    assert take(world) == []


def test_only_as_many_as_were_asked_for_and_each_client_has_its_share(world: World) -> None:
    for _ in range(4):
        offered(world, client="busy")
    mine = offered(world, client="shop")
    assert mine in {one.task_id for one in take(world, most=2)}


def test_an_instance_gets_only_what_it_can_take(world: World) -> None:
    task_id = offered(world, target={"ability": "echo", "requires": {"gpu": True}})
    assert take(world, instance="i1") == []
    assert task(task_id)["waiting"]
    assert [one.task_id for one in take(world, instance="i2")] == [task_id]


def test_no_more_than_the_instance_may_work_on_at_a_time(world: World) -> None:
    instances = tuple(dataclasses.replace(one, max_concurrency=3) for one in INSTANCES)
    view = AgentView("worker", channels=("pull",), instances=instances)
    candidate = CandidateView(view, CapabilityView("echo"))
    world.abilities["echo"] = dataclasses.replace(world.abilities["echo"], candidates=(candidate,))
    for _ in range(5):
        offered(world)
    assert (len(take(world)), len(take(world)), len(take(world, instance="i2"))) == (2, 0, 2)


def test_sessions_stay_with_their_instance(world: World) -> None:
    for _ in range(3):
        offered(world, sessionId="s-1")
    assert sorted([len(take(world, instance="i1")), len(take(world, instance="i2"))]) == [0, 3]


def test_a_receipt_and_a_result_end_it(world: World) -> None:
    task_id = offered(world)
    [leased] = take(world)
    report.receipt(task_id, leased.attempt_key, b"{}", clock.now())
    sweep(clock.now() + dt.timedelta(seconds=29))
    report.result(task_id, leased.attempt_key, b'{"status": "SUCCEEDED", "data": {"y": 1.10}}', clock.now())
    assert task(task_id)["state"] == "SUCCEEDED"


def test_a_task_without_receipt_is_lost_and_retried_and_its_key_is_stale(world: World) -> None:
    task_id = offered(world, timeoutMs=600_000)
    [leased] = take(world)
    sweep(clock.now() + LATER)
    row = attempt(task_id)
    assert (row["outcome"], row["certainty"], row["code"]) == ("LOST", "MAYBE_RAN", "UNREACHABLE")
    assert task(task_id)["state"] == "RETRY_WAIT"
    with pytest.raises(StateConflict):
        report.receipt(task_id, leased.attempt_key, b"{}", clock.now())


def test_what_was_acknowledged_is_not_lost(world: World) -> None:
    task_id = offered(world, timeoutMs=600_000)
    [leased] = take(world)
    report.receipt(task_id, leased.attempt_key, b"{}", clock.now())
    sweep(clock.now() + LATER)
    assert task(task_id)["state"] == "RUNNING"


def test_side_effects_forbid_a_second_run_of_a_lost_lease(world: World) -> None:
    declare(world, CapabilityView("echo", side_effects=True))
    task_id = offered(world, timeoutMs=600_000)
    take(world)
    sweep(clock.now() + LATER)
    assert (task(task_id)["state"], task(task_id)["error_code"]) == ("FAILED", "MAYBE_RAN")


def test_what_nobody_read_was_not_sent_and_is_free_at_once(world: World) -> None:
    declare(world, CapabilityView("echo", side_effects=True))
    task_id = offered(world, retry={"maxAttempts": 1})
    leased = take(world)
    lease.unread(leased, clock.now())
    assert (task(task_id)["state"], attempt(task_id)["certainty"]) == ("RETRY_WAIT", "NOT_SENT")
    assert world.nudged[-1] == task_id


def test_a_task_in_its_backoff_is_no_offer(world: World) -> None:
    task_id = offered(world, timeoutMs=600_000)
    take(world)
    sweep(clock.now() + LATER)
    assert take(world) == []
    assert task(task_id)["waiting"]


def test_offers_are_seen_by_who_waits_for_them(world: World) -> None:
    keys = [(world.namespace, "worker"), (world.namespace, "another")]
    assert read_offered(keys) == []
    offered(world)
    assert read_offered(keys) == [keys[0]]


def test_a_poll_that_breaks_off_leaves_the_task_on_offer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = offered(world)

    def broken(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(lease, "dispatch", broken)
    with pytest.raises(RuntimeError):
        take(world)
    monkeypatch.undo()
    assert (task(task_id)["waiting"], task(task_id)["attempts"]) == (True, 0)

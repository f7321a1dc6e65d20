"""Breakers over real worker processes: one trial at a time, whoever is killed and however often all are started anew."""

import time
from contextlib import closing

import psutil
import pytest

from tests.trips.world import Platform, World, until

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

OPEN_S = 20.0
TRIAL_S = 20.0  # an attempt's timeout; a trial's lease is 5 s longer


@pytest.fixture(scope="module")
def four_workers():
    running = Platform(REACH_WORKERS="4")
    yield running
    running.stop()


def opened(world):
    """The client's circuit is open; a moment before it opened."""
    route = {
        "ability": "work.echo",
        "candidates": [{"agent": "echo", "capability": "echo"}],
        "breaker": {"openMs": int(OPEN_S * 1000)},
    }
    table = {"apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": world.namespace, "routes": [route]}
    world.platform.operator("PUT", f"/v1/routes?namespace={world.namespace}", json=table)
    world.outside.agent_status = 500
    for _ in range(3):
        before = time.monotonic()
        world.ended(world.submit(retry={"maxAttempts": 1}))
    world.outside.agent_status = 200
    return before


def kill_workers(platform):
    """Kill all; returns once there are as many new ones."""
    old = {one.pid for one in platform.processes("celery", "worker")}
    for one in platform.processes("celery", "worker"):
        one.kill()
    until(lambda: len({p.pid for p in platform.processes("celery", "worker")} - old) >= len(old), 60, "new workers")


def sender_of(world, call):
    """The process that made this call."""
    events = world.request("GET", f"/v1/tasks/{call['taskId']}/journey").json()["events"]
    node = [one["node"] for one in events if one["event"] == "DISPATCHED"][-1]
    return psutil.Process(int(node.rpartition(":")[2]))


def test_a_trial_is_alone_outlives_no_worker_and_an_open_breaker_outlives_all(four_workers):
    with closing(World(four_workers)) as world:
        began, calls = opened(world), world.outside.calls
        kill_workers(four_workers)
        world.outside.delay_s = 600.0  # whoever tries hangs
        ids = world.submit_many(20, timeoutMs=int(TRIAL_S * 1000), timeoutBudgetMs=240_000)
        until(lambda: len(calls) > 3, 120, "the trial")
        assert time.monotonic() - began >= OPEN_S  # the new workers knew that it is open
        time.sleep(3)
        assert len(calls) == 4
        world.outside.delay_s = 0.0
        sender_of(world, calls[3]).kill()
        until(lambda: len(calls) > 4, 120, "the next trial")
        world.all_told(ids, 240)

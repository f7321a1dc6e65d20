"""Slots outlive nobody who held them, and everything is exact again after an outage of Redis."""

import time
from contextlib import closing

import pytest

from tests.trips.world import World, until

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

LOOK_AGAIN_S = 5.0  # a task that waits for a slot in the database looks again within so long


def calls_of(process, world):
    """How many calls the process has under way."""
    port = world.outside.server.server_address[1]
    return sum(1 for one in process.net_connections("tcp") if one.raddr and one.raddr.port == port)


def test_the_slots_of_a_killed_worker_serve_the_living_within_fifteen_seconds(platform):
    with closing(World(platform, maxConcurrency=125)) as world:
        world.outside.delay_s = 60.0
        ids = world.submit_many(200, timeoutMs=90_000, timeoutBudgetMs=240_000)
        until(lambda: len(world.outside.calls) >= 100, 60, "a hundred calls, as many as it is given")
        worker = max(platform.processes("celery", "worker"), key=lambda one: calls_of(one, world))
        held = calls_of(worker, world)
        assert (held >= 50, len(world.outside.calls)) == (True, 100)
        worker.kill()
        until(lambda: len(world.outside.calls) >= 100 + held, 15 + LOOK_AGAIN_S, "as many calls as it held")
        world.outside.delay_s = 0.0
        world.all_told(ids, 120)


def test_tasks_flow_while_redis_stands_still_for_a_minute_and_limits_hold_again_afterwards(platform):
    with closing(World(platform, maxConcurrency=5)) as world:
        (server,) = platform.processes("redis-server")
        server.suspend()
        try:
            ids, end = [], time.monotonic() + 60
            while time.monotonic() < end:
                ids.append(world.submit({"n": len(ids)}))
                time.sleep(1)
            assert len(world.outside.calls) >= len(ids) - 5
        finally:
            server.resume()
        platform.wait_ready()
        world.all_told(ids)
        time.sleep(6)  # a renewal later
        world.outside.most_running, world.outside.delay_s = 0, 0.1
        ids = world.submit_many(150)
        world.all_told(ids)
        assert world.outside.most_running == 4

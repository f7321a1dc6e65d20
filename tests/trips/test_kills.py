"""Any process may be killed at any time: what was accepted ends, and is told."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import redis
import requests

from reach_platform.embedded.place import Place
from tests.trips.world import until

pytestmark = pytest.mark.chaos


def test_killed_workers_with_fifty_running_lose_nothing(world):
    world.outside.delay_s = 3.0
    ids = world.submit_many(50, timeoutMs=20_000)
    until(lambda: len(world.outside.calls) >= 50, 30, "fifty running tasks")
    for worker in world.platform.processes("celery", "worker"):
        worker.kill()
    world.outside.delay_s = 0.0
    world.all_told(ids)


def test_a_redis_that_comes_back_empty_under_load_loses_nothing(world):
    ids = world.submit_many(20)
    before = world.platform.processes("redis-server")
    for server in before:
        server.kill()
    ids += world.submit_many(40)
    until(
        lambda: {p.pid for p in world.platform.processes("redis-server")} - {p.pid for p in before}, 10, "a new Redis"
    )
    ids += world.submit_many(20)
    world.all_told(ids)
    world.called_once(ids)


@pytest.mark.slow
def test_three_restarts_of_redis_and_cut_connections_leave_workers_and_beat_at_work(world):
    for _ in range(3):
        for server in world.platform.processes("redis-server"):
            server.kill()
        time.sleep(1)
    world.platform.wait_ready()
    redis.Redis.from_url(Place.of(Path(world.platform.home.name)).redis_url).client_kill_filter(_type="normal")
    ids = world.submit_many(10)
    world.all_told(ids)
    world.called_once(ids)
    before = last_probe(world)
    until(lambda: last_probe(world) > before, 60, "another probe, which beat asks for")


def last_probe(world):
    """When the agent's instance was last looked at; empty before the first time."""
    found = world.platform.operator("GET", f"/v1/agents/echo/health?namespace={world.namespace}")
    return max((probe["at"] for one in found["instances"] for probe in one["probes"]), default="")


def test_a_paused_redis_delays_no_post_and_nothing_runs_twice(world):
    (server,) = world.platform.processes("redis-server")
    server.suspend()
    try:
        took, ids = [], []
        for number in range(20):
            began = time.monotonic()
            ids.append(world.submit({"n": number}))
            took.append(time.monotonic() - began)
        assert max(took) < 3.0
        world.all_told(ids)
    finally:
        server.resume()
    world.platform.wait_ready()
    world.all_told([*ids, world.submit()])
    world.called_once(ids)


def test_every_202_of_killed_web_processes_comes_to_its_end(world):
    accepted = []

    def post(number):
        try:
            answer = world.reach({"n": number})
        except requests.RequestException:
            return
        if answer.status_code == 202:
            accepted.append(answer.json()["taskId"])

    with ThreadPoolExecutor(8) as pool:
        posts = [pool.submit(post, number) for number in range(300)]
        until(lambda: len(accepted) > 50, 20, "some posts")
        for web in world.platform.processes("granian"):
            web.send_signal(signal.SIGKILL)
        [one.result() for one in posts]
    world.platform.wait_ready()
    world.all_told(accepted)


def test_a_killed_postgresql_is_back_and_the_platform_ready_within_five_seconds(world):
    world.all_told([world.submit()])
    servers = world.platform.processes("postgres", "-D")
    began = time.monotonic()
    for server in servers:
        server.kill()
    until(lambda: all(not server.is_running() for server in servers), 5, "the end of the killed one")
    world.platform.wait_ready()
    task_id = world.submit()
    assert time.monotonic() - began < 5.0
    world.all_told([task_id])


@contextmanager
def unreachable(platform):
    """PostgreSQL answers nothing, and every connection stays open."""
    servers = platform.processes("postgres")
    for server in servers:
        server.suspend()
    yield
    for server in servers:
        server.resume()


@contextmanager
def stopped(platform):
    """PostgreSQL is gone, and the supervisor, itself suspended, starts it only afterwards."""
    supervisor = psutil.Process(platform.process.pid)
    supervisor.suspend()
    for server in platform.processes("postgres", "-D"):
        server.send_signal(signal.SIGINT)
    yield
    supervisor.resume()


@pytest.mark.slow
@pytest.mark.parametrize("outage", [unreachable, stopped])
def test_fifteen_seconds_without_a_database_send_nothing_twice(world, outage):
    world.outside.delay_s = 30.0
    ids = world.submit_many(10, timeoutMs=50_000, timeoutBudgetMs=120_000)
    until(lambda: len(world.outside.calls) >= 10, 20, "ten running tasks")
    with outage(world.platform):
        time.sleep(15)
    world.platform.wait_ready()
    world.all_told(ids)
    world.called_once(ids)

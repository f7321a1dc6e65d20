"""`python -m benchmarks.heartbeats --instances 1000`: what real heartbeats every ten seconds cost a platform.

`manage.py up` runs in a directory of its own; the instances' rows are written directly, all that follows is HTTP.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from benchmarks import processes
from benchmarks.http import Caller
from benchmarks.load import Generator, Post
from benchmarks.measure import percentile
from benchmarks.platform_setup import Setup
from benchmarks.systems import run, wait_until, wait_until_ready
from reach_platform.embedded.place import Place, remove_stale_homes

INTERVAL_S = 10.0
PER_AGENT, MOST_CONNECTIONS = 100, 1000
WARM_S, IDLE_S = 20.0, 10.0
COUNTED = ("granian", "redis-server", "postgres")
NAMESPACE = "hearts"
SAID = {"status": "ok", "components": {"db": "ok"}, "resources": {"gpuFree": 1}}
INSTANCES = """
INSERT INTO registry_instance (agent_id, instance_id, implicit, invoke_url, health_url, lookup_url, networks, region,
  zone, version, labels, weight, prefer_channel, state, state_since, reason, draining, weight_percent, registered_at,
  last_heard_at, heartbeat, probe_due_at, probe_failures, probe_successes, probe_reason)
SELECT a.id, 'i' || n, false, '', '', '', '{}', '', '', '', '{}', 100, '', 'ONLINE', now() - interval '1 hour', '',
  false, 100, now(), now(), %s, now() + random() * interval '60 s', 0, 0, ''
FROM registry_agent a, generate_series(1, %s) n WHERE a.namespace = %s"""


class Heart(Caller):
    """One connection on which several instances send their heartbeats."""

    def __init__(self, base_url: str):
        address = urlsplit(base_url)
        super().__init__(address.hostname or "", address.port or 80, b"")
        self._rest = f"HTTP/1.1\r\nHost: {address.netloc}\r\n"

    async def beat(self, path: str, key: str, body: bytes) -> Post:
        self._head = (
            f"POST {path} {self._rest}Authorization: Bearer {key}\r\nContent-Type: application/json\r\n".encode()
        )
        begun_at = time.time()
        try:
            status = await self.post(body)
        except OSError:
            status = 0
        return Post(path, begun_at, time.time(), status)


async def beating(base_url: str, paths: list[tuple[str, str]], seconds: float) -> list[Post]:
    """Have each instance, (path, key), send a heartbeat every ten seconds, evenly spread; the last within `seconds`."""
    connections = [paths[n::MOST_CONNECTIONS] for n in range(min(MOST_CONNECTIONS, len(paths)))]
    posts: list[Post] = []
    begin = time.monotonic()

    async def keep_beating(mine: list[tuple[str, str]]) -> None:
        heart, first = Heart(base_url), random.random() * INTERVAL_S / len(mine)
        for number in range(round(seconds / INTERVAL_S * len(mine))):
            await asyncio.sleep(max(0.0, begin + first + number * INTERVAL_S / len(mine) - time.monotonic()))
            if time.monotonic() > begin + seconds:
                break  # a platform that is behind stays behind: the rate says so
            said = {**SAID, "inflight": number % 7}
            posts.append(await heart.beat(*mine[number % len(mine)], json.dumps(said).encode()))
        heart.close()

    await asyncio.gather(*(keep_beating(mine) for mine in connections))
    return posts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heartbeats", description=__doc__)
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to measure (default 30)")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    data_dir = Path(tempfile.mkdtemp(prefix="reach-hearts-"))
    try:
        with ExitStack() as stack:
            for name, value in measured(stack, data_dir, options.instances, options.seconds).items():
                print(f"{name:34} {value:10.2f}", flush=True)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
        remove_stale_homes()


def measured(stack: ExitStack, data_dir: Path, instances: int, seconds: float) -> dict[str, float]:
    """CPU in cores, latency in milliseconds, memory in MiB, by name."""
    port = processes.free_port()
    own = {"REACH_DATA_DIR": str(data_dir), "REACH_PORT": str(port)}
    up = run(["manage.py", "up"], {**os.environ, **own}, data_dir / "up.log", stack)
    base_url, demo = f"http://127.0.0.1:{port}", data_dir / "demo.json"
    wait_until_ready(f"{base_url}/readyz", [up])
    wait_until(demo.exists, "demo.json was not written")
    setup = Setup.from_demo(demo, base_url)
    roots = [up.pid]
    empty_mib = processes.memory_bytes(roots) / 2**20
    idle = cores(roots, IDLE_S)  # before there is anybody who could be missed
    paths = prepared(setup, Place.of(data_dir).database_url, instances)
    warm = max(WARM_S, instances / 200)  # each process reads each instance's row once
    load = Generator(beating, base_url, paths, warm + seconds)
    time.sleep(warm)
    begun = time.time()
    busy = cores(roots, seconds - 2)
    posts = [one for one in load.result() if one.begun_at >= begun]
    waits = [(one.answered_at - one.begun_at) * 1000 for one in posts]
    return {
        "instances": instances,
        "heartbeats/s": len(posts) / seconds,
        "not answered 200": sum(one.status != 200 for one in posts),
        "p50 ms": percentile(waits, 50),
        "p99 ms": percentile(waits, 99),
        "cores: web, Redis and PostgreSQL": sum(busy.get(name, 0.0) for name in COUNTED),
        **{f"cores: {name}": value for name, value in sorted(busy.items())},
        "cores without heartbeats: the three": sum(idle.get(name, 0.0) for name in COUNTED),
        "memory MiB": processes.memory_bytes(roots) / 2**20,
        "memory MiB without instances": empty_mib,
        "load average": os.getloadavg()[0],
    }


def prepared(setup: Setup, database: str, instances: int) -> list[tuple[str, str]]:
    """Register agents and write their instances' rows; returns each instance's heartbeat path and its agent's key."""
    setup.call("POST", "/v1/namespaces", {"name": NAMESPACE})
    each = min(PER_AGENT, instances)
    names = [f"agent-{n}" for n in range(-(-instances // each))]
    keys = {}
    for name in names:
        keys[name] = setup.call("POST", f"/v1/agents/{name}/credentials", {"namespace": NAMESPACE})["key"]
        capability = {"name": name, "sideEffects": False}
        manifest = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest", "metadata": {"name": name, "version": "1"},
                    "spec": {"capabilities": [capability]}}  # fmt: skip
        setup.call("PUT", f"/v1/agents/{name}?namespace={NAMESPACE}", manifest)
    with psycopg.connect(database) as connection:
        said = json.dumps({**SAID, "goodSince": "2026-01-01T00:00:00.000Z"})  # the first ones are long ago
        connection.execute(INSTANCES, [said, each, NAMESPACE])
    return [(f"/v1/agents/{name}/instances/i{n}/heartbeat", keys[name]) for n in range(1, each + 1) for name in names]


def cores(roots: list[int], seconds: float) -> dict[str, float]:
    """The CPU that each program uses for so long, in cores."""
    before = processes.cpu_seconds(roots)
    time.sleep(seconds)
    spent: dict[str, Any] = processes.between(before, processes.cpu_seconds(roots))
    return {name: value / seconds for name, value in spent.items()}


if __name__ == "__main__":
    main()

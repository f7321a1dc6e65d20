"""`python -m benchmarks.flapping`: the strategies experiment of report A, every strategy and HAProxy in one run.

150 callers in a closed loop. A strong agent does 100 calls at a time in 2 s each, a medium one 40 in 3 s, a flaky one
40 in 3 s, which answers 500 at once for 10 s of every 30. Their health addresses say ok all the time: only the calls
tell. What is beyond an agent's capacity waits there.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import aiohttp
import requests
from aiohttp import web

from benchmarks import processes
from benchmarks.measure import percentile
from benchmarks.platform_setup import Setup, client
from benchmarks.systems import ROOT, run, wait_until, wait_until_ready
from reach_platform.embedded.place import remove_stale_homes

CALLERS = 150
UP_S, DOWN_S = 20.0, 10.0
ABILITY = "flap.work"
BACKOFF_MS = [50, 100, 200]
STRATEGIES = ("least_conn", "weighted_round_robin", "score", "least_load", "round_robin")
NO_HEALTH = {
    "REACH_HEALTH_FAILING_FOR_S": "3600",
    "REACH_HEALTH_FAILING_CALLS": "200",
    "REACH_HEALTH_DEAD_CALLS": "200",
    "REACH_HEALTH_FAILURE_SHARE": "1",
}
NO_BREAKER = {"failureShare": 1.0, "minVolume": 1_000_000, "consecutive": 1_000_000}
HAPROXY = """
global
  maxconn 4000
defaults
  mode http
  timeout connect 800ms
  timeout client 60s
  timeout server 60s
  timeout queue 60s
frontend callers
  bind 127.0.0.1:{port}
  default_backend agents
backend agents
  balance leastconn
  retries 3
  retry-on 500 conn-failure
  option redispatch 1
  option httpchk GET /health
  default-server check inter 1s fall 3 rise 2 observe layer7 error-limit 3 on-error mark-down
{servers}
"""


@dataclass(frozen=True)
class Kind:
    """A simulated agent."""

    name: str
    capacity: int
    seconds: float
    flaps: bool = False


KINDS = (Kind("strong", 100, 2.0), Kind("medium", 40, 3.0), Kind("flaky", 40, 3.0, flaps=True))


@dataclass
class Ended:
    """One caller's task: seconds it took, whether it succeeded."""

    seconds: float
    good: bool


def serve(kind: Kind, port: int) -> None:
    """One agent, for ever."""
    began, room = time.monotonic(), asyncio.Semaphore(kind.capacity)

    async def invoke(request: web.Request) -> web.Response:
        await request.read()
        async with room:
            if kind.flaps and (time.monotonic() - began) % (UP_S + DOWN_S) > UP_S:
                return web.json_response({"error": {"message": "down"}}, status=500)
            await asyncio.sleep(kind.seconds)
            return web.json_response({"status": "SUCCEEDED", "data": {"by": kind.name}})

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application()
    app.router.add_post("/", invoke)
    app.router.add_get("/health", health)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None, handle_signals=False)


def main() -> None:
    """Run all in turn, print the table, save it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flapping", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each turn (default 60: two flaps)")
    seconds = parser.parse_args().seconds
    logging.disable(logging.INFO)
    with ExitStack() as stack:
        ports = {kind.name: agent(stack, kind) for kind in KINDS}
        lines = [measured("HAProxy leastconn, retry on 500", haproxy(stack, ports), {}, seconds)]
        with platform({}) as setup:
            spaces = {one: prepared(setup, one, ports) for one in STRATEGIES}
            wait_until_online(setup, [space for space, _ in spaces.values()])
            for strategy, (space, key) in spaces.items():
                lines.append(on_platform(strategy, setup, space, key, seconds))
        with platform(NO_HEALTH) as setup:
            space, key = prepared(setup, "round_robin", ports, breaker=NO_BREAKER)
            wait_until_online(setup, [space])
            lines.append(on_platform("round_robin without health", setup, space, key, seconds))
    table = "\n".join([HEAD, *lines])
    print(table)
    artifacts = ROOT / "artifacts"
    artifacts.mkdir(exist_ok=True)
    (artifacts / "flapping.md").write_text(table + "\n", "utf-8")


HEAD = "| | success | calls/s | mean ms | P95 ms | sends a task |\n|---|---:|---:|---:|---:|---:|"


def agent(stack: ExitStack, kind: Kind) -> int:
    """Start an agent; returns its port."""
    port = processes.free_port()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(kind, port), daemon=True)
    process.start()
    stack.callback(process.terminate)
    wait_until_ready(f"http://127.0.0.1:{port}/health", [])
    return port


def haproxy(stack: ExitStack, ports: dict[str, int]) -> str:
    """Start HAProxy before the agents; returns its address."""
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    capacity = {kind.name: kind.capacity for kind in KINDS}
    port = processes.free_port()
    servers = [f"  server {name} 127.0.0.1:{at} maxconn {capacity[name]}" for name, at in ports.items()]
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / "haproxy.cfg").write_text(HAPROXY.format(port=port, servers="\n".join(servers)), "utf-8")
    process = subprocess.Popen([program, "-f", str(folder / "haproxy.cfg"), "-db"], stdout=subprocess.DEVNULL)
    stack.callback(process.terminate)
    wait_until_ready(f"http://127.0.0.1:{port}/health", [])
    return f"http://127.0.0.1:{port}/"


@contextmanager
def platform(more: dict[str, str]) -> Iterator[Setup]:
    """A platform of its own, with these settings."""
    data_dir = Path(tempfile.mkdtemp(prefix="reach-flap-"))
    port = processes.free_port()
    own = {"REACH_DATA_DIR": str(data_dir), "REACH_PORT": str(port), "REACH_OUTBOUND_ALLOW": "127.0.0.0/8"}
    try:
        with ExitStack() as stack:
            up = run(["manage.py", "up"], {**os.environ, **own, **more}, data_dir / "up.log", stack)
            wait_until_ready(f"http://127.0.0.1:{port}/readyz", [up])
            demo = data_dir / "demo.json"
            wait_until(demo.exists, "demo.json was not written")
            yield Setup.from_demo(demo, f"http://127.0.0.1:{port}")
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
        remove_stale_homes()


def prepared(setup: Setup, strategy: str, ports: dict[str, int], **route: Any) -> tuple[str, str]:
    """A namespace with the three agents and a route; returns it and a client's key."""
    space = f"flap-{secrets.token_hex(4)}"
    setup.call("POST", "/v1/namespaces", {"name": space})
    for kind in KINDS:
        address = f"http://127.0.0.1:{ports[kind.name]}"
        spec = {
            "capabilities": [{"name": "work", "sideEffects": False}],
            "limits": {"maxConcurrency": kind.capacity, "timeoutMs": 20_000, "latencyCeilingMs": 6000},
            "endpoints": {"invoke": f"{address}/", "health": f"{address}/health"},
            "probe": {"type": "http", "intervalMs": 5000},
        }
        manifest = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest",
                    "metadata": {"name": kind.name, "version": "1"}, "spec": spec}  # fmt: skip
        setup.call("PUT", f"/v1/agents/{kind.name}?namespace={space}", manifest)
    table = {
        "ability": ABILITY,
        "strategy": strategy,
        "candidates": [{"agent": kind.name, "capability": "work"} for kind in KINDS],
        "retry": {"maxAttempts": 4, "backoffMs": BACKOFF_MS, "jitterMs": 0},
        "limits": {"instanceShare": 1.0},
        **route,
    }
    body = {"apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": space, "routes": [table]}
    setup.call("PUT", f"/v1/routes/{ABILITY}?namespace={space}", body)
    return space, setup.call("POST", "/v1/clients", client(space))["key"]


def wait_until_online(setup: Setup, spaces: list[str]) -> None:
    """New instances take a tenth of the traffic: the comparison begins when all are proven."""
    headers = {"Authorization": f"Bearer {setup.operator_key}"}

    def all_online() -> bool:
        states = []
        for space in spaces:
            for kind in KINDS:
                path = f"{setup.base_url}/v1/agents/{kind.name}/health?namespace={space}"
                states += [one["state"] for one in requests.get(path, headers=headers, timeout=10).json()["instances"]]
        return set(states) == {"ONLINE"}

    end = time.monotonic() + 180
    while not all_online():
        if time.monotonic() > end:
            raise RuntimeError("the instances did not come online")
        time.sleep(1)


def on_platform(title: str, setup: Setup, space: str, key: str, seconds: float) -> str:
    """One turn through the platform, and how often it sent each task."""
    body = {"target": {"ability": ABILITY}, "payload": {}, "timeoutBudgetMs": 60_000}
    headers = {"Authorization": f"Bearer {key}", "Prefer": "wait=30"}
    line = measured(title, f"{setup.base_url}/v1/reach", headers, seconds, body)
    operator = {"Authorization": f"Bearer {setup.operator_key}"}
    page = requests.get(f"{setup.base_url}/v1/tasks?namespace={space}&limit=200", headers=operator, timeout=30).json()
    return line.replace("| – |", f"| {fmean(one['attempts'] for one in page['items']):.2f} |")


def measured(title: str, url: str, headers: dict[str, str], seconds: float, body: Any = None) -> str:
    """All callers for so long; returns the table's line."""
    print(f"{title} …", flush=True)
    ended = asyncio.run(calling(url, headers, body or {}, seconds))
    waits = [one.seconds * 1000 for one in ended]
    share = sum(one.good for one in ended) / len(ended)
    rate = sum(one.good for one in ended) / seconds
    return f"| {title} | {share:.4f} | {rate:.1f} | {fmean(waits):.0f} | {percentile(waits, 95):.0f} | – |"


async def calling(url: str, headers: dict[str, str], body: Any, seconds: float) -> list[Ended]:
    """150 callers, each with one task at a time; what is under way at the end is not counted."""
    ended: list[Ended] = []
    begun, end = time.monotonic(), time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=CALLERS)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def keep_calling() -> None:
            await asyncio.sleep((time.monotonic() - begun) + secrets.randbelow(2000) / 1000)
            while True:
                at = time.monotonic()
                good = await called(session, url, body)
                if time.monotonic() > end:
                    return
                ended.append(Ended(time.monotonic() - at, good))

        await asyncio.gather(*(keep_calling() for _ in range(CALLERS)))
    return ended


async def called(session: aiohttp.ClientSession, url: str, body: Any) -> bool:
    """Whether the task succeeded; one that takes longer than the wait is asked for until it has ended."""
    async with session.post(url, json=body) as answer:
        document = json.loads(await answer.read() or b"{}")
        if answer.status == 200:
            return document.get("state", document.get("status")) == "SUCCEEDED"
        if answer.status != 202:
            await asyncio.sleep(0.2)
            return False
    while True:
        await asyncio.sleep(0.2)
        async with session.get(f"{url.removesuffix('/reach')}/tasks/{document['taskId']}") as answer:
            task = await answer.json()
            if task["endedAt"]:
                return bool(task["state"] == "SUCCEEDED")


if __name__ == "__main__":
    main()

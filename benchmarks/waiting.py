"""`python -m benchmarks.waiting`: what ten thousand tasks cost whose agents answered 202 and are not done yet.

A platform of its own with one worker. The agent takes each task with a 202; with `--polled` it names a status address,
which says that the work goes on. After none, a tenth and all of the tasks the worker's memory, threads and connections
to the agent are looked at, and for some time how often the database is asked. In the end the agent is done with all,
and each task must have succeeded.
"""

import argparse
import asyncio
import functools
import logging
import multiprocessing
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import requests
from aiohttp import web

from benchmarks.alone import Alone, connections_to, platform
from benchmarks.platform_setup import ROUTE, Setup, client
from benchmarks.systems import ROOT, wait_until

ABILITY, DAY_MS = "patient.work", 24 * 3600 * 1000
BATCH, CALLERS, SETTLED_S = 500, 8, 6.0
BREAKER = ROUTE["breaker"]  # that stays shut
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Look:
    """What one look found: memory in MiB, and per second of the time that was watched."""

    waiting: int
    memory: float
    threads: int
    connections: int
    statements: float
    rows: float
    cpu: float

    def row(self) -> str:
        return (
            f"| {self.waiting:,} | {self.memory:.0f} | {self.threads} | {self.connections} | "
            f"{self.statements:.0f} | {self.rows:,.0f} | {self.cpu:.0%} |"
        )


HEAD = """| waiting | RSS, MiB | threads | connections to the agent | database: transactions/s | rows read/s | CPU |
|---:|---:|---:|---:|---:|---:|---:|"""


def serve(polled: bool, is_done: Any, pipe: Any) -> None:
    """The agent: takes every task, and gives the pipe its port and then on demand what it took."""
    taken: list[tuple[str, str, str]] = []

    async def invoke(request: web.Request) -> web.Response:
        given = await request.json()
        if "taskId" not in given:
            return web.json_response({"status": "ok"})
        taken.append((given["resultUrl"], given["resultToken"], given["attemptKey"]))
        return web.json_response({"statusUrl": "/job"} if polled else {}, status=202)

    async def status(_: web.Request) -> web.Response:
        return web.json_response({"status": "SUCCEEDED", "data": {}} if is_done.value else {"status": "RUNNING"})

    async def main() -> None:
        app = web.Application()
        app.add_routes([web.post("/", invoke), web.get("/job", status)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        pipe.send(runner.addresses[0][1])
        while await asyncio.to_thread(pipe.recv):
            pipe.send(taken[:])
            taken.clear()

    asyncio.run(main())


@dataclass
class Agent:
    """The agent's process, seen from here."""

    port: int
    is_done: Any
    pipe: Any
    process: Any

    @classmethod
    def start(cls, polled: bool) -> "Agent":
        pipe, far_end = SPAWN.Pipe()
        is_done = SPAWN.Value("b", 0, lock=False)
        process = SPAWN.Process(target=serve, args=(polled, is_done, far_end), daemon=True)
        process.start()
        return cls(pipe.recv(), is_done, pipe, process)

    def taken(self) -> list[tuple[str, str, str]]:
        self.pipe.send(True)
        return list(self.pipe.recv())


def main() -> None:
    """Measure, print the table, save it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting", description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each state is watched")
    parser.add_argument("--polled", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    agent = Agent.start(given.polled)
    try:
        with platform(workers=1) as one:
            key = prepared(one.setup, agent)
            table = measured(one, agent, key, given.tasks, given.seconds, given.polled)
    finally:
        agent.process.terminate()
    print(table)
    (ROOT / "artifacts").mkdir(exist_ok=True)
    (ROOT / "artifacts" / f"waiting-{'polled' if given.polled else 'reported'}.md").write_text(table + "\n", "utf-8")


def prepared(setup: Setup, agent: Agent) -> str:
    """Set up the namespace; returns the client's key."""
    space = f"wait-{secrets.token_hex(4)}"
    setup.call("POST", "/v1/namespaces", {"name": space})
    address = f"http://127.0.0.1:{agent.port}/"
    spec = {
        "capabilities": [{"name": ABILITY, "sideEffects": False}],
        "limits": {"maxConcurrency": 100_000, "timeoutMs": DAY_MS},
        "endpoints": {"invoke": address},
        "probe": {"type": "tcp"},
    }
    manifest = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest", "spec": spec}
    manifest["metadata"] = {"name": "patient", "version": "1"}
    setup.call("PUT", f"/v1/agents/patient?namespace={space}", manifest)
    route = {
        "ability": ABILITY,
        "candidates": [{"agent": "patient", "capability": ABILITY}],
        "limits": {"maxInflight": 100_000, "queueMax": 100_000},
        "retry": {"maxAttempts": 3, "backoffMs": [1000]},
        "breaker": BREAKER,
    }
    body = {"apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": space, "routes": [route]}
    setup.call("PUT", f"/v1/routes?namespace={space}", body)
    return str(setup.call("POST", "/v1/clients", client(space))["key"])


def measured(one: Alone, agent: Agent, key: str, tasks: int, seconds: float, polled: bool) -> str:
    """The table, and what became of the tasks."""
    submit(one, key, 200)  # pools and caches are filled
    finish(one, agent, polled, 200)
    looks, waiting = [look(one, agent, 0, seconds)], 0
    for count in (tasks // 10, tasks):
        submit(one, key, count - waiting)
        waiting = count
        wait_until(functools.partial(all_run, one, count), "the agent did not get all tasks")
        time.sleep(SETTLED_S)
        looks.append(look(one, agent, waiting, seconds))
        print(looks[-1].row(), flush=True)
    began = time.monotonic()
    finish(one, agent, polled, tasks)
    done = f"All {tasks:,} succeeded; from the agent's being done to the last end {time.monotonic() - began:.0f} s."
    return "\n".join([HEAD, *(found.row() for found in looks), "", done])


def submit(one: Alone, key: str, count: int) -> None:
    """Have so many accepted."""

    def post(number: int) -> None:
        body = {"target": {"ability": ABILITY}, "payload": {"text": "x" * 500}, "timeoutMs": DAY_MS}
        tasks = {"tasks": [body] * min(BATCH, count - number)}
        headers = {"Authorization": f"Bearer {key}"}
        answer = requests.post(f"{one.setup.base_url}/v1/reach/batch", json=tasks, headers=headers, timeout=60)
        if answer.status_code != 200 or any(item["status"] != 202 for item in answer.json()["items"]):
            raise RuntimeError(f"{answer.status_code} {answer.text[:500]}")

    for number in range(0, count, BATCH):
        post(number)


def all_run(one: Alone, count: int) -> bool:
    return running(one) == count


def running(one: Alone) -> int:
    [(count,)] = one.rows("SELECT count(*) FROM routing_task WHERE state = 'RUNNING'")
    return int(count)


def look(one: Alone, agent: Agent, waiting: int, seconds: float) -> Look:
    """How things stand, after having watched for so long."""
    before, began = one.work(), time.monotonic()
    time.sleep(seconds)
    [worker] = one.workers()
    lasted = time.monotonic() - began
    statements, rows, cpu = (after - earlier for earlier, after in zip(before, one.work(), strict=True))
    memory, threads = worker.memory_info().rss / 2**20, worker.num_threads()
    open_ones = connections_to(worker, agent.port)
    return Look(waiting, memory, threads, open_ones, statements / lasted, rows / lasted, cpu / lasted)


def finish(one: Alone, agent: Agent, polled: bool, count: int) -> None:
    """The agent is done with everything; returns once all have succeeded."""
    wait_until(lambda: running(one) == count, "the agent did not get all tasks")
    taken = agent.taken()
    agent.is_done.value = 1
    if not polled:
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(lambda given: report(one.setup.base_url, *given), taken))
    wait_until(lambda: running(one) == 0, "not all tasks ended")
    agent.is_done.value = 0
    [(failed,)] = one.rows("SELECT count(*) FROM routing_task WHERE outcome <> 'SUCCEEDED'")
    if failed:
        raise RuntimeError(f"{failed} tasks did not succeed")


_session = requests.Session()


def report(base_url: str, url: str, token: str, attempt_key: str) -> None:
    """What the agent tells when it is done."""
    body = {"attemptKey": attempt_key, "status": "SUCCEEDED", "data": {}}
    path = url[url.index("/v1/") :]
    answer = _session.post(base_url + path, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=60)
    if answer.status_code != 200:
        raise RuntimeError(f"{answer.status_code} {answer.text[:500]}")


if __name__ == "__main__":
    main()

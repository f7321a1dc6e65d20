"""`python -m benchmarks.overload`: the overload experiment of report C, with an exit status of 1 where a bar is missed.

100 callers of five clients ask one ability, whose five instances do two calls at a time in 0.3 to 0.5 s each; one of
them flaps: of every 8 s it answers 500 at once for 3. The load rises step by step to three times what all five can do.
What is refused is dropped by its caller, but at the end of each step ten refused callers wait as long as they were told
and ask again.
"""

import argparse
import asyncio
import logging
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import requests
from aiohttp import web

from benchmarks import processes
from benchmarks.measure import percentile
from benchmarks.platform_setup import Setup, client
from benchmarks.systems import ROOT, run, wait_until, wait_until_ready
from reach_platform.embedded.place import Place, remove_stale_homes

AGENT, ABILITY, SPACE = "target", "target.work", "overload"
INSTANCES, AT_A_TIME, DECLARED = 5, 2, 3  # an instance is sent 0.8 of what it declares
WORK_S = (0.3, 0.5)
UP_S, DOWN_S = 5.0, 3.0
CLIENTS, CALLERS = 5, 100
STEPS = (0.5, 0.9, 1.3, 2.0, 3.0)
STEP_S, RAMP_S, BUDGET_S = 20.0, 4.0, 6.0
BACK, BEAT_S = 10, 8.0  # refused callers that come again; seconds between heartbeats
SENDS_BAR, GOODPUT_BAR, KEPT_BAR = 1.2, 0.9, 0.99
SQL = """
SELECT t.created_at, t.ended_at, t.deadline_at, t.outcome = 'SUCCEEDED',
  (SELECT count(*) FROM routing_attempt a WHERE a.task_id = t.id AND a.sent_at IS NOT NULL)
FROM routing_task t WHERE t.namespace = %s"""


@dataclass(frozen=True)
class Speed:
    """How much slower than usual the agents are; budgets are in proportion."""

    slower: float = 1.0

    @property
    def capacity(self) -> float:
        """Tasks a second of all five."""
        return INSTANCES * AT_A_TIME / (self.slower * sum(WORK_S) / 2)

    @property
    def budget_s(self) -> float:
        return self.slower * BUDGET_S


@dataclass(frozen=True)
class Ended:
    """An accepted task; times in seconds since the epoch."""

    created_at: float
    ended_at: float
    deadline_at: float
    succeeded: bool
    sends: int

    @property
    def is_kept(self) -> bool:
        return self.succeeded and self.ended_at <= self.deadline_at


@dataclass
class Step:
    """One load: `factor` of the capacity from `began` to `ended`, seconds since the epoch."""

    factor: float
    began: float
    ended: float
    statuses: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)  # what those were answered who came again when they were told


@dataclass(frozen=True)
class Line:
    """What became of one step."""

    factor: float
    offered: float
    accepted: float
    refused: int
    goodput: float
    sends: float
    kept: float
    p95_ms: float
    told_true: float | None  # of the refused that came again, the share that was taken


def line_of(step: Step, ended: Sequence[Ended]) -> Line:
    """The table's line. Goodput counts what ended within the step after its ramp; all else what was accepted in it."""
    seconds, mine = step.ended - step.began, [one for one in ended if step.began <= one.created_at < step.ended]
    since = step.began + RAMP_S
    good = sum(one.is_kept and since <= one.ended_at < step.ended for one in ended)
    accepted = step.statuses.count(202)
    return Line(
        step.factor,
        len(step.statuses) / seconds,
        accepted / seconds,
        len(step.statuses) - accepted,
        good / (step.ended - since),
        sum(one.sends for one in mine) / max(1, len(mine)),
        sum(one.is_kept for one in mine) / max(1, len(mine)),
        percentile([(one.ended_at - one.created_at) * 1000 for one in mine if one.succeeded] or [0.0], 95),
        step.waited.count(202) / len(step.waited) if step.waited else None,
    )


def missed(lines: Sequence[Line], statuses: set[int], overrun: int) -> list[str]:
    """The bars that were missed, in words; `overrun` is how many calls an instance had at a time beyond its limit."""
    peak = max(one.goodput for one in lines)
    found = []
    for one in lines:
        at = f"at {one.factor:g} × capacity"
        if one.sends > SENDS_BAR:
            found.append(f"{one.sends:.2f} sends a task {at}")
        if one.factor >= 1 and one.goodput < GOODPUT_BAR * peak:
            found.append(f"goodput {one.goodput:.1f}/s {at}, {peak:.1f}/s at the most")
        if one.kept < KEPT_BAR:
            found.append(f"{one.kept:.2%} of the accepted kept their budget {at}")
        if one.told_true is not None and one.told_true < 1:
            found.append(f"{one.told_true:.0%} of those who came again when they were told were taken {at}")
    if odd := statuses - {202, 429, 503}:
        found.append(f"answers {sorted(odd)}")
    if overrun:
        found.append(f"an instance had {overrun} calls more at a time than it takes")
    return found


def table_of(lines: Sequence[Line]) -> str:
    head = "| load | offered/s | accepted/s | refused | goodput/s | sends ÷ tasks | kept | p95 ms | Retry-After true |"
    rows = [head, "|---" + "|---:" * 8 + "|"]
    for one in lines:
        told = "–" if one.told_true is None else f"{one.told_true:.0%}"
        rows.append(
            f"| {one.factor:g} × | {one.offered:.1f} | {one.accepted:.1f} | {one.refused} | {one.goodput:.1f} "
            f"| {one.sends:.3f} | {one.kept:.2%} | {one.p95_ms:.0f} | {told} |"
        )
    return "\n".join(rows)


def serve(port: int, slower: float, overrun: Any, flaps_since: Any) -> None:
    """The five instances, for ever; the last one flaps from when it is told to (monotonic, 0 = not yet)."""
    running = [0] * INSTANCES

    async def invoke(request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        await request.read()
        running[number] += 1
        overrun.value = max(overrun.value, running[number] - AT_A_TIME)
        try:
            if number == INSTANCES - 1 and is_down(flaps_since.value):
                return web.json_response({"error": {"message": "down"}}, status=500)
            await asyncio.sleep(slower * random.uniform(*WORK_S))
            return web.json_response({"status": "SUCCEEDED", "data": {"by": number}})
        finally:
            running[number] -= 1

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app = web.Application()
    app.router.add_post("/{number}", invoke)
    app.router.add_get("/health", health)
    quiet = {"print": None, "access_log": None, "handle_signals": False}
    web.run_app(app, host="127.0.0.1", port=port, handler_cancellation=True, **quiet)


def is_down(flaps_since: float) -> bool:
    return flaps_since > 0 and (time.monotonic() - flaps_since) % (UP_S + DOWN_S) > UP_S


def main() -> int:
    """Run all steps, print the table, save it; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--slower", type=float, default=1.0, help="agents so much slower, where the machine is busy")
    parser.add_argument("--keep", action="store_true", help="leave the platform's data directory and say where it is")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    data_dir = Path(tempfile.mkdtemp(prefix="reach-overload-"))
    try:
        with ExitStack() as stack:
            lines, found = measured(stack, data_dir, Speed(given.slower))
    finally:
        if given.keep:
            print(data_dir)
        else:
            shutil.rmtree(data_dir, ignore_errors=True)
        remove_stale_homes()
    table = table_of(lines)
    print(table)
    print("\n".join(f"missed: {one}" for one in found) or "all bars met")
    artifacts = ROOT / "artifacts"
    artifacts.mkdir(exist_ok=True)
    (artifacts / "overload.md").write_text(table + "\n", "utf-8")
    return 1 if found else 0


def measured(stack: ExitStack, data_dir: Path, pace: Speed) -> tuple[list[Line], list[str]]:
    """Start everything and raise the load; returns the table's lines and the bars missed."""
    context, port = multiprocessing.get_context("spawn"), processes.free_port()
    overrun, flaps_since = context.Value("i", 0), context.Value("d", 0.0)
    agents = context.Process(target=serve, args=(port, pace.slower, overrun, flaps_since), daemon=True)
    agents.start()
    stack.callback(agents.terminate)
    wait_until_ready(f"http://127.0.0.1:{port}/health", [])
    setup = platform(stack, data_dir)
    keys = prepared(stack, setup, f"http://127.0.0.1:{port}")
    say("waiting until the instances have proved themselves")
    asyncio.run(proving(setup, keys, pace))
    flaps_since.value = time.monotonic()
    steps = asyncio.run(rising(f"{setup.base_url}/v1/reach", keys, pace))
    ended = tasks(Place.of(data_dir).database_url)
    lines = [line_of(step, ended) for step in steps]
    statuses = {status for step in steps for status in (*step.statuses, *step.waited)}
    return lines, missed(lines, statuses, overrun.value)


def platform(stack: ExitStack, data_dir: Path) -> Setup:
    """A platform of its own."""
    port = processes.free_port()
    own = {"REACH_DATA_DIR": str(data_dir), "REACH_PORT": str(port), "REACH_OUTBOUND_ALLOW": "127.0.0.0/8"}
    up = run(["manage.py", "up"], {**os.environ, **own}, data_dir / "up.log", stack)
    wait_until_ready(f"http://127.0.0.1:{port}/readyz", [up])
    demo = data_dir / "demo.json"
    wait_until(demo.exists, "demo.json was not written")
    return Setup.from_demo(demo, f"http://127.0.0.1:{port}")


def prepared(stack: ExitStack, setup: Setup, agents: str) -> list[str]:
    """A namespace with the five instances, alive as long as the stack; returns the clients' keys."""
    setup.call("POST", "/v1/namespaces", {"name": SPACE})
    credentials = setup.call("POST", f"/v1/agents/{AGENT}/credentials", {"namespace": SPACE})
    agent = Setup(setup.base_url, credentials["key"])
    spec = {
        "capabilities": [{"name": "work", "sideEffects": False}],
        "limits": {"timeoutMs": 20_000, "latencyCeilingMs": 2000, "maxConcurrency": DECLARED},
        "probe": {"type": "http", "intervalMs": 5000},
    }
    manifest = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest",
                "metadata": {"name": AGENT, "version": "1"}, "spec": spec}  # fmt: skip
    agent.call("PUT", f"/v1/agents/{AGENT}", manifest)
    stop = threading.Event()
    stack.callback(stop.set)
    for number in range(INSTANCES):
        place = f"/v1/agents/{AGENT}/instances/i{number}"
        agent.call("PUT", place, {"invokeUrl": f"{agents}/{number}", "healthUrl": f"{agents}/health"})
        beat = threading.Thread(target=agent.beat, args=(f"{place}/heartbeat", BEAT_S, stop), daemon=True)
        beat.start()
    route = {
        "ability": ABILITY,
        "candidates": [{"agent": AGENT, "capability": "work"}],
        "retry": {"maxAttempts": 3, "backoffMs": [200, 400], "jitterMs": 100},
        "limits": {"queueMax": 1000},
    }
    table = {"apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": SPACE, "routes": [route]}
    setup.call("PUT", f"/v1/routes/{ABILITY}?namespace={SPACE}", table)
    made = [setup.call("POST", "/v1/clients", {**client(SPACE), "name": f"c{n}"}) for n in range(CLIENTS)]
    return [one["key"] for one in made]


async def proving(setup: Setup, keys: list[str], pace: Speed) -> None:
    """New instances take a tenth of the traffic: light traffic until they are new no more."""
    headers = {"Authorization": f"Bearer {setup.operator_key}"}
    path, end = f"{setup.base_url}/v1/agents/{AGENT}/health?namespace={SPACE}", time.monotonic() + 180
    async with aiohttp.ClientSession() as session:
        while True:
            for _ in range(10):
                await asked(session, f"{setup.base_url}/v1/reach", random.choice(keys), pace)
                await asyncio.sleep(0.2)
            document = await asyncio.to_thread(lambda: requests.get(path, headers=headers, timeout=10).json())
            if all(one["state"] in ("ONLINE", "DEGRADED") for one in document["instances"]):
                return
            if time.monotonic() > end:
                raise RuntimeError("the instances did not come online")


async def rising(url: str, keys: list[str], pace: Speed) -> list[Step]:
    """All steps, one after the other, with the queue empty in between."""
    steps = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CALLERS * 2)) as session:
        for factor in STEPS:
            say(f"{factor:g} × capacity: {factor * pace.capacity:.0f} tasks/s for {STEP_S:.0f} s")
            steps.append(await loaded(session, url, keys, factor, pace))
            await asyncio.sleep(pace.budget_s)
    return steps


async def loaded(session: aiohttp.ClientSession, url: str, keys: list[str], factor: float, pace: Speed) -> Step:
    """One step: each caller asks at its own times, whatever it is answered."""
    each_s = CALLERS / (factor * pace.capacity)
    step = Step(factor, time.time(), time.time() + STEP_S)
    refused: dict[int, float] = {}  # caller → when it may come again, by the monotonic clock
    end = time.monotonic() + STEP_S

    async def keep_asking(caller: int) -> None:
        due = time.monotonic() + each_s * random.random()
        while due < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += each_s
            status, wait_s = await asked(session, url, keys[caller % CLIENTS], pace)
            step.statuses.append(status)
            refused.pop(caller, None)
            if status in (429, 503):
                refused[caller] = time.monotonic() + wait_s

    async def come_again(caller: int) -> None:
        await asyncio.sleep(max(0.0, refused[caller] - time.monotonic()))
        step.waited.append((await asked(session, url, keys[caller % CLIENTS], pace))[0])

    await asyncio.gather(*(keep_asking(caller) for caller in range(CALLERS)))
    latest = sorted(refused, key=lambda one: -refused[one])[:BACK]
    await asyncio.gather(*(come_again(caller) for caller in latest))
    return step


async def asked(session: aiohttp.ClientSession, url: str, key: str, pace: Speed) -> tuple[int, float]:
    """One POST: its status and its Retry-After in seconds."""
    body = {"target": {"ability": ABILITY}, "payload": {}, "timeoutBudgetMs": round(pace.budget_s * 1000)}
    async with session.post(url, json=body, headers={"Authorization": f"Bearer {key}"}) as answer:
        await answer.read()
        return answer.status, float(answer.headers.get("Retry-After", "inf"))


def tasks(database: str) -> list[Ended]:
    """All tasks, once the last one has ended."""
    end = time.monotonic() + 30
    while True:
        with psycopg.connect(database) as connection:
            rows = connection.execute(SQL, [SPACE]).fetchall()
        if all(row[1] for row in rows):
            return [Ended(*(at.timestamp() for at in row[:3]), *row[3:]) for row in rows]
        if time.monotonic() > end:
            raise RuntimeError(f"{sum(row[1] is None for row in rows)} tasks never ended")
        time.sleep(0.5)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text} …", flush=True)


if __name__ == "__main__":
    sys.exit(main())

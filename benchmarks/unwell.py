"""`python -m benchmarks.unwell`: twelve ways in which an instance can be unwell, and what the platform makes of each.

Every agent has two instances and takes five tasks a second; one of the two falls ill. All fall ill in the same moment,
and get well in the same moment; the prober's own trouble comes last, by itself.
"""

import argparse
import itertools
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import requests

from benchmarks import processes
from benchmarks.faults import FaultProxy
from benchmarks.platform_setup import Setup, client
from benchmarks.systems import ROOT, run, wait_until, wait_until_ready
from reach_platform.embedded.place import Place, remove_stale_homes

EACH_S = 0.2  # between two tasks of one agent
WARM_S, ILL_S, RECOVERY_S, CUT_S = 75.0, 90.0, 200.0, 60.0
FLAP_S = 4.0
SCHEMA = {"category": "string", "confidence": "number"}
SQL = (
    "SELECT agent_id, instance_id, sent_at FROM routing_attempt WHERE namespace = %s AND sent_at IS NOT NULL ORDER BY 3"
)
OUTCOMES = """
SELECT a.agent_id, count(DISTINCT t.id) FROM routing_task t JOIN routing_attempt a ON a.task_id = t.id
WHERE t.namespace = %s AND t.outcome IN ('FAILED', 'TIMEOUT') GROUP BY 1"""


@dataclass
class Way:
    """One way to be unwell: `ill` begins it, `well` ends it."""

    agent_id: str
    title: str
    ill: Callable[[], None]
    well: Callable[[], None]
    place: str = "main"  # the process that plays the instance


class Agents:
    """A process of simulated instances."""

    def __init__(self, told: dict[str, Any]):
        self._told = told
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "benchmarks.sick_agent"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True, bufsize=1)
        self.say(self._told)

    def say(self, line: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(line) + "\n")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@dataclass
class Town:
    """The platform, its agents, and the traffic."""

    setup: Setup
    namespace: str
    database: str
    agents: dict[str, Agents] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def traffic(self, agent_ids: list[str], key: str) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._ask, args=(one, key), daemon=True) for one in agent_ids]
        for thread in threads:
            thread.start()
        return threads

    def _ask(self, agent_id: str, key: str) -> None:
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {key}"
        body = {"target": {"ability": agent_id}, "payload": {"text": "hello"}, "timeoutBudgetMs": 30_000}
        due = time.monotonic()
        while not self.stop.wait(max(0.0, due - time.monotonic())):
            due += EACH_S
            try:
                session.post(f"{self.setup.base_url}/v1/reach", json=body, timeout=10)
            except requests.RequestException as error:
                print(f"a task could not be submitted: {error}")

    def health(self, agent_id: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.setup.operator_key}"}
        path = f"{self.setup.base_url}/v1/agents/{agent_id}/health?namespace={self.namespace}"
        document = requests.get(path, headers=headers, timeout=10).json()
        return {one["instanceId"]: one for one in document["instances"]}

    def rows(self, statement: str) -> list[tuple]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(statement, [self.namespace]).fetchall()


def main() -> None:
    """Run all, print the table, save it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unwell", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="short phases: shows that it runs, its figures mean little"
    )
    quick = parser.parse_args().quick
    logging.disable(logging.INFO)
    data_dir = Path(tempfile.mkdtemp(prefix="reach-unwell-"))
    try:
        with ExitStack() as stack:
            table = measured(stack, data_dir, quick)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
        remove_stale_homes()
    print(table)
    artifacts = ROOT / "artifacts"
    artifacts.mkdir(exist_ok=True)
    (artifacts / "unwell.md").write_text(table + "\n", "utf-8")


def measured(stack: ExitStack, data_dir: Path, quick: bool) -> str:
    """Start everything, let all fall ill and get well; returns the table."""
    scale = 0.1 if quick else 1.0
    town = started(stack, data_dir)
    ways = ways_of(stack, town)
    ids = [way.agent_id for way in ways]
    key = prepared(town, ids)
    town_agents(stack, town, ways)
    threads = town.traffic(ids, key)
    for thread in threads:
        stack.callback(thread.join, 15)
    stack.callback(town.stop.set)
    say(f"warming up for {WARM_S * scale:.0f} s")
    time.sleep(WARM_S * scale)
    ill_at = time.time()
    for way in ways:
        way.ill()
    say(f"all ill for {ILL_S * scale:.0f} s")
    time.sleep(ILL_S * scale)
    seen = {one: town.health(one)["sick"] for one in ids}
    well_at = time.time()
    for way in ways:
        way.well()
    say("all well again")
    patient(lambda: all(town.health(one)["sick"]["state"] == "ONLINE" for one in ids), RECOVERY_S * scale)
    lines = [line_of(town, way, seen[way.agent_id], ill_at, well_at) for way in ways]
    lines.append(prober_cut_off(town, ids, CUT_S * scale))
    return table_of(lines)


def prober_cut_off(town: Town, ids: list[str], seconds: float) -> list[str]:
    """No probe reaches anybody, every call works."""
    time.sleep(20)
    began = time.time()
    say(f"the prober is cut off for {seconds:.0f} s")
    for one, instance in itertools.product(ids, ("sick", "well")):
        place = town.agents.get(one if instance == "sick" else "main", town.agents["main"])
        place.say({"instance": f"{one}/{instance}", "health": "hang"})
    time.sleep(seconds)
    documents = [one for agent_id in ids for one in town.health(agent_id).values()]
    suspect = sum(one["proberSuspect"] for one in documents)
    moved = [change for one in documents for change in one["changes"] if seconds_of(change["at"]) >= began]
    shown = f"{len(moved)} of {len(documents)} instances moved; {suspect} pages show the prober as suspect"
    shown += "".join(f"; {one['to']}: {one['reason']}" for one in moved[:3])
    return ["prober itself cut off", "never", shown, "–", "–"]


def line_of(town: Town, way: Way, seen: dict[str, Any], ill_at: float, well_at: float) -> list[str]:
    """The table's line of one way."""
    attempts = [(at.timestamp(), who == "sick") for agent, who, at in town.rows(SQL) if agent == way.agent_id]
    during = [one for one in attempts if ill_at - 20 <= one[0] < well_at]
    at, before, after = change_of(during)
    word = "stops" if after == 0 else f"{before:.0%} → {after:.0%}"
    less = (
        f"{max(0.0, at - ill_at):.1f} ({word})" if after < 0.7 * before else f"not at all ({before:.0%} → {after:.0%})"
    )
    changes = town.health(way.agent_id)["sick"]["changes"][::-1]
    ill = [one for one in changes if ill_at <= seconds_of(one["at"]) < well_at]
    back = [one for one in changes if seconds_of(one["at"]) >= well_at]
    moves = ", ".join(f"{one['to']} after {seconds_of(one['at']) - ill_at:.1f} s" for one in ill[:4])
    shown = f"{moves or seen['state']}{' (draining)' if seen['draining'] else ''}: {seen['reason']}"
    path = " → ".join([seen["state"], *(one["to"] for one in back)])
    done = next((seconds_of(one["at"]) for one in back if one["to"] == "ONLINE"), None)
    returned = returned_at([one for one in attempts if one[0] >= well_at], well_at)
    failed = dict(town.rows(OUTCOMES)).get(way.agent_id, 0)
    if len(ill) > 4:
        shown += f" ({len(ill)} moves in all)"
    recovered = f"{done - well_at:.0f} ({path})" if done else f"{returned:.0f} (traffic)" if returned else path
    return [way.title, less, shown, recovered, str(failed)]


def change_of(series: list[tuple[float, bool]]) -> tuple[float, float, float]:
    """(when, share before, share after): the split into two levels that fits the series best."""
    total, count, best = sum(sick for _, sick in series), len(series), (-1.0, 0)
    left = 0
    for index in range(1, count):
        left += series[index - 1][1]
        a, b = left / index, (total - left) / (count - index)
        best = max(best, (index * (count - index) * (a - b) ** 2, index))
    index = best[1]
    before, after = series[:index], series[index:]
    return (
        before[-1][0] if before else 0.0,
        sum(sick for _, sick in before) / max(1, len(before)),
        sum(sick for _, sick in after) / max(1, len(after)),
    )


def returned_at(series: list[tuple[float, bool]], since: float) -> float | None:
    """Seconds until it was asked again for the first time."""
    return next((at - since for at, sick in series if sick), None)


def ways_of(stack: ExitStack, town: Town) -> list[Way]:
    """All but the prober's own."""
    cable = stack.enter_context(FaultProxy(("127.0.0.1", town_port("main"))))
    loose = stack.enter_context(FaultProxy(("127.0.0.1", town_port("main"))))
    ADDRESSES.update({"partitioned": cable.url, "flapping": loose.url})
    flaps = Flapping(loose)

    def mode(agent_id: str, **change: str) -> Way:
        def ill() -> None:
            town.agents["main"].say({"instance": f"{agent_id}/sick", **change})

        def well() -> None:
            town.agents["main"].say({"instance": f"{agent_id}/sick", **dict.fromkeys(change, "ok")})

        return Way(agent_id, TITLES[agent_id], ill, well)

    def on(place: str, do: Callable[[Agents], None]) -> Callable[[], None]:
        return lambda: do(town.agents[place])

    def partition() -> None:
        cable.partition()
        town.agents["main"].say({"instance": "partitioned/sick", "beat": "none"})

    def heal() -> None:
        cable.heal()
        town.agents["main"].say({"instance": "partitioned/sick", "beat": "ok"})

    return [
        Way("killed", TITLES["killed"], on("killed", Agents.kill), on("killed", Agents.start), "killed"),
        Way("hung", TITLES["hung"], on("hung", Agents.pause), on("hung", Agents.resume), "hung"),
        mode("error-text", invoke="text", health="text"),
        mode("json-down", health="down"),
        mode("slow", invoke="slow"),
        mode("half", invoke="half"),
        mode("dependency", beat="down"),
        mode("silent", beat="none"),
        mode("drained", beat="draining"),
        Way("partitioned", TITLES["partitioned"], partition, heal),
        Way("flapping", TITLES["flapping"], flaps.begin, flaps.end),
    ]  # fmt: skip


TITLES = {
    "killed": "process killed",
    "hung": "port open but hung (stopped)",
    "error-text": "200 with “ERROR” body",
    "json-down": "health says DOWN, calls work",
    "slow": "slow (20 ms → 2 s)",
    "half": "half of the calls fail",
    "dependency": "dependency down by heartbeat",
    "silent": "heartbeat lost",
    "drained": "drained",
    "partitioned": "partitioned",
    "flapping": f"flapping (gone {FLAP_S:.0f} s, there {FLAP_S:.0f} s)",
}
PORTS: dict[str, int] = {}
ADDRESSES: dict[str, str] = {}  # of sick instances that are reached through a proxy


class Flapping:
    """Goes and comes until ended."""

    def __init__(self, proxy: FaultProxy):
        self._proxy, self._ended = proxy, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._proxy.listen()

    def _run(self) -> None:
        for move in itertools.cycle((self._proxy.refuse, self._proxy.listen)):
            move()
            if self._ended.wait(FLAP_S):
                return


def town_port(place: str) -> int:
    """The port of a process of simulated instances."""
    return PORTS.setdefault(place, processes.free_port())


def started(stack: ExitStack, data_dir: Path) -> Town:
    """A platform of its own."""
    port = processes.free_port()
    own = {"REACH_DATA_DIR": str(data_dir), "REACH_PORT": str(port), "REACH_OUTBOUND_ALLOW": "127.0.0.0/8"}
    up = run(["manage.py", "up"], {**os.environ, **own}, data_dir / "up.log", stack)
    base_url, demo = f"http://127.0.0.1:{port}", data_dir / "demo.json"
    wait_until_ready(f"{base_url}/readyz", [up])
    wait_until(demo.exists, "demo.json was not written")
    setup = Setup.from_demo(demo, base_url)
    setup.call("POST", "/v1/namespaces", {"name": "unwell"})
    return Town(setup, "unwell", Place.of(data_dir).database_url)


def prepared(town: Town, ids: list[str]) -> str:
    """Register the agents; returns a client's key."""
    for agent_id in ids:
        capability = {"name": agent_id, "inputSchema": {"text": "string"}, "outputSchema": SCHEMA, "sideEffects": False}
        spec = {"owner": "bench", "capabilities": [capability], "limits": {"maxConcurrency": 50, "timeoutMs": 3000}}
        manifest = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest",
                    "metadata": {"name": agent_id, "version": "1"}, "spec": spec}  # fmt: skip
        town.setup.call("PUT", f"/v1/agents/{agent_id}?namespace={town.namespace}", manifest)
    return str(town.setup.call("POST", "/v1/clients", client(town.namespace))["key"])


def town_agents(stack: ExitStack, town: Town, ways: list[Way]) -> None:
    """Start the processes that play the instances."""
    for place in ("main", "killed", "hung"):
        local = f"http://127.0.0.1:{town_port(place)}"
        mine = [way.agent_id for way in ways if way.place == place]
        instances = {f"{one}/sick": ADDRESSES.get(one, local) for one in mine}
        if place == "main":
            instances |= {f"{way.agent_id}/well": local for way in ways}
        told = {"port": town_port(place), "platform": town.setup.base_url, "key": town.setup.operator_key,
                "namespace": town.namespace, "instances": instances}  # fmt: skip
        town.agents[place] = Agents(told)
        stack.callback(town.agents[place].kill)
    patient(lambda: all(len(town.health(way.agent_id)) == 2 for way in ways), 60)


def patient(check: Callable[[], bool], seconds: float) -> None:
    """Return once it holds, or when the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not check():
        time.sleep(1)


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def table_of(lines: list[list[str]]) -> str:
    head = [
        "way to be unwell",
        "seconds until it gets less",
        "state and reason shown",
        "seconds until it is back",
        "tasks failed",
    ]
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text} …", flush=True)


if __name__ == "__main__":
    main()

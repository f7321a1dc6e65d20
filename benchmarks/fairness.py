"""`python -m benchmarks.fairness`: how long a single task, and one of high priority, wait behind 100,000 of another.

A platform of its own with two workers, and a slow agent: 8 calls at a time of 0.2 s each, so that the queue stands; a
call that runs is not broken off, so that nobody could be quicker behind longer ones. The backlog is copied in the
database from one accepted task. Each try is one POST, and ends at the agent.
"""

import argparse
import logging
import os
import secrets
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import requests

from benchmarks import alone
from benchmarks.peers import Agent, Peer
from benchmarks.platform_setup import Setup, client
from benchmarks.systems import ROOT, wait_until

SLOTS, CALL_S, PAUSE_S = 8, 0.2, 0.2
ABILITY = "fair.work"
PATIENCE = {"timeoutBudgetMs": 3_600_000, "ttlMs": 3_600_000}
TASKS = """
INSERT INTO routing_task (id, namespace, client, ability, trace_id, traceparent, call_path, priority, state,
  state_since, seq, waiting, due_at, attempts, max_attempts, round, idempotency_key, created_at, budget_at, expires_at,
  deadline_at, timings)
SELECT uuidv7(), namespace, client, ability, trace_id, traceparent, call_path, priority, 'RECEIVED', state_since, 1,
  true, due_at, 0, max_attempts, round, n::text, created_at, budget_at, expires_at, deadline_at, timings
FROM routing_task, generate_series(1, %(count)s) n WHERE id = %(id)s"""
BODIES = """
INSERT INTO routing_taskbody (task_id, request)
SELECT t.id, b.request FROM routing_task t, routing_taskbody b
WHERE b.task_id = %(id)s AND t.namespace = %(namespace)s AND t.id <> %(id)s"""

SENT = """
SELECT extract(epoch FROM a.sent_at - t.created_at) FROM routing_task t JOIN routing_attempt a ON a.task_id = t.id
WHERE t.id = %s"""


@dataclass
class Town:
    """A namespace of the platform with the slow agent, and its two clients' keys."""

    setup: Setup
    namespace: str
    agent: Peer
    database: str
    keys: dict[str, str]

    def post(self, name: str, priority: str, marker: str) -> str:
        """Submit a task of this client; returns its id."""
        body = {
            "target": {"ability": ABILITY},
            "payload": {"marker": marker},
            "metadata": {"priority": priority},
            "timeoutMs": 30_000,
            **PATIENCE,
        }
        headers = {"Authorization": f"Bearer {self.keys[name]}"}
        answer = requests.post(f"{self.setup.base_url}/v1/reach", json=body, headers=headers, timeout=30)
        if answer.status_code != 202:
            raise RuntimeError(f"{answer.status_code} {answer.text[:500]}")
        return str(answer.json()["taskId"])

    def flood(self, count: int) -> None:
        """So many tasks of low priority wait, all of one client."""
        values: dict[str, Any] = {"id": self.post("flood", "low", "flood"), "namespace": self.namespace, "count": count}
        with psycopg.connect(self.database) as connection:
            connection.execute(TASKS, values)
            connection.execute(BODIES, values)
        wait_until(lambda: self.agent.count.value > 2 * SLOTS, "the backlog is not worked off")

    def delays(self, name: str, priority: str, tries: int) -> list[tuple[float, float]]:
        """Of one task after the other the seconds from POST to agent, and from being accepted to being sent."""
        found = []
        for _ in range(tries):
            marker, began = secrets.token_hex(8), time.time()
            task_id = self.post(name, priority, marker)
            found.append((self._received_at(marker) - began, self._sent_after(task_id)))
            time.sleep(PAUSE_S)
        return found

    def _sent_after(self, task_id: str) -> float:
        with psycopg.connect(self.database) as connection:
            row = connection.execute(SENT, [task_id]).fetchone()
        return float(row[0]) if row else 0.0

    def _received_at(self, marker: str) -> float:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for one, received_at, _ in self.agent.take_records():
                if one == marker:
                    return float(received_at)
            time.sleep(0.02)
        raise RuntimeError("a task did not reach the agent within 60 s")

    def waiting(self) -> int:
        with psycopg.connect(self.database) as connection:
            found = connection.execute("SELECT count(*) FROM routing_task WHERE waiting").fetchone()
        return found[0] if found else 0


def main() -> None:
    """Measure both, print the table, save it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000, help="waiting tasks of the other client")
    parser.add_argument("--tries", type=int, default=40)
    given = parser.parse_args()
    logging.disable(logging.INFO)
    with town() as one:
        one.flood(given.tasks)
        print(f"{given.tasks:,} wait", flush=True)
        before, began = one.agent.count.value, time.monotonic()
        single = one.delays("single", "low", given.tries)
        high = one.delays("flood", "high", given.tries)
        rate = (one.agent.count.value - before) / (time.monotonic() - began)
        table = table_of({"another client's, same priority": single, "high priority, same client": high})
        table += f"\n\n{one.waiting():,} still waited; the agent did {rate:.0f} calls/s of {SLOTS / CALL_S:.0f}; "
        table += f"load average {os.getloadavg()[0]:.1f}."
    print(table)
    artifacts = ROOT / "artifacts"
    artifacts.mkdir(exist_ok=True)
    (artifacts / "fairness.md").write_text(table + "\n", "utf-8")


def table_of(measured: dict[str, list[tuple[float, float]]]) -> str:
    lines = [
        "| behind the backlog | tries | accepted → sent, median ms | longest | POST → agent, median ms | longest |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, delays in measured.items():
        there, sent = zip(*delays, strict=True)
        figures = [f"{of(one) * 1000:.0f}" for one in (sent, there) for of in (statistics.median, max)]
        lines.append(f"| {name} | {len(delays)} | {' | '.join(figures)} |")
    return "\n".join(lines)


@contextmanager
def town() -> Iterator[Town]:
    """A platform of its own with the agent and the clients."""
    with alone.platform(2) as one:
        agent = Peer.start(Agent, CALL_S)
        try:
            yield prepared(one.setup, agent, one.database)
        finally:
            agent.stop()  # before the platform, which would cut its connections


def prepared(setup: Setup, agent: Peer, database: str) -> Town:
    """Set up the namespace."""
    space = f"fair-{secrets.token_hex(4)}"
    setup.call("POST", "/v1/namespaces", {"name": space})
    spec = {
        "capabilities": [{"name": "work", "sideEffects": False}],
        "limits": {"maxConcurrency": SLOTS, "timeoutMs": 30_000},
        "endpoints": {"invoke": agent.url, "health": agent.url},
    }
    manifest = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest", "spec": spec}
    manifest["metadata"] = {"name": "slow", "version": "1"}
    setup.call("PUT", f"/v1/agents/slow?namespace={space}", manifest)
    route = {
        "ability": ABILITY,
        "candidates": [{"agent": "slow", "capability": "work"}],
        "limits": {"instanceShare": 1.0},
    }
    body = {"apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": space, "routes": [route]}
    setup.call("PUT", f"/v1/routes?namespace={space}", body)
    keys = {}
    for name in ("flood", "single"):
        keys[name] = setup.call("POST", "/v1/clients", {**client(space), "name": name})["key"]
    return Town(setup, space, agent, database, keys)


if __name__ == "__main__":
    main()

"""`python -m benchmarks.receivers`: how long a callback takes while the receivers of 500 others hang.

A platform of its own with one worker, and an agent that answers at once. 500 tasks are called back at addresses that
accept connections and never answer: 500 hosts, or 500 addresses of one host, of which one is well. Meanwhile tasks of
the same client are called back at a receiver that is well, one after the other; what counts is the time from the
agent's answer to the callback's arrival.
"""

import argparse
import logging
import multiprocessing
import os
import secrets
import socket
import statistics
import threading
import time
from dataclasses import dataclass
from typing import Any

import requests

from benchmarks.alone import Alone, platform
from benchmarks.peers import Agent, Peer, Receiver
from benchmarks.platform_setup import AGENT, MANIFEST, Setup, client
from benchmarks.systems import ROOT, wait_until

ABILITY, PAUSE_S = "classify", 0.1
SPAWN = multiprocessing.get_context("spawn")
HEAD = """| who hangs | connections that hang | callbacks to the one that is well | median ms | p95 ms | longest ms |
|---|---:|---:|---:|---:|---:|"""


def hang(pipe: Any, well: str, accepted: Any) -> None:
    """Accept at every loopback address, and answer at `/well` only, by passing the request on to the address `well`."""
    listener = socket.create_server(("0.0.0.0", 0), backlog=4096)  # noqa: S104 - loopback addresses, each a host
    pipe.send(listener.getsockname()[1])
    kept = []
    while True:
        connection = listener.accept()[0]
        accepted.value += 1
        kept.append(connection)
        threading.Thread(target=_pass_on, args=(connection, well), daemon=True).start()


def _pass_on(connection: socket.socket, well: str) -> None:
    """Requests for `/well`, as they come, over a connection of their own."""
    received = b""
    while part := connection.recv(65536):
        received += part
        head, found, body = received.partition(b"\r\n\r\n")
        if not found or b" /well" not in head:
            continue
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) >= length:
            answer = requests.post(well, data=body[:length], timeout=10)
            connection.sendall(b"HTTP/1.1 %d OK\r\nContent-Length: 0\r\n\r\n" % (200 if answer.ok else 500))
            received = body[length:]


@dataclass
class Town:
    """The platform with its agent, and who is called back."""

    one: Alone
    key: str
    agent: Peer
    receiver: Peer
    port: int  # of those that hang
    accepted: Any

    def post(self, url: str, marker: str) -> None:
        body = {
            "target": {"ability": ABILITY},
            "payload": {"ticketTitle": "t", "ticketContent": "c", "marker": marker},
            "correlationId": marker,
            "callback": {"type": "http", "url": url},
        }
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = requests.post(f"{self.one.setup.base_url}/v1/reach", json=body, headers=headers, timeout=30)
        if answer.status_code != 202:
            raise RuntimeError(f"{answer.status_code} {answer.text[:500]}")

    def delays(self, url: str, tries: int) -> list[float]:
        """Milliseconds from the agent's answer to the callback, of one task after the other."""
        found = []
        for _ in range(tries):
            marker = secrets.token_hex(8)
            self.post(url, marker)
            arrived_at, answered_at = self._when(self.receiver, marker, 1), self._when(self.agent, marker, 2)
            found.append((arrived_at - answered_at) * 1000)
            time.sleep(PAUSE_S)
        return found

    def _when(self, peer: Peer, marker: str, column: int) -> float:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for record in peer.take_records():
                if record[0] == marker:
                    return float(record[column])
            time.sleep(0.005)
        raise RuntimeError("a callback did not arrive within 120 s")

    def row(self, name: str, hanging: list[str], well: str, tries: int, *, at_a_time: int | None = None) -> str:
        """Have them hang, `at_a_time` of them if not all, and measure."""
        before = self.accepted.value
        for url in hanging:
            self.post(url, secrets.token_hex(8))
        least = before + (len(hanging) if at_a_time is None else at_a_time)
        wait_until(lambda: self.accepted.value >= least, "not all receivers were called")
        delays = sorted(self.delays(well, tries))
        p95 = delays[int(0.95 * (len(delays) - 1))]
        figures = f"{statistics.median(delays):.0f} | {p95:.0f} | {delays[-1]:.0f}"
        return f"| {name} | {self.accepted.value - before} | {tries} | {figures} |"


def main() -> None:
    """Measure each, print the table, save it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.receivers", description=__doc__)
    parser.add_argument("--hanging", type=int, default=500)
    parser.add_argument("--tries", type=int, default=50)
    given = parser.parse_args()
    logging.disable(logging.INFO)
    agent, receiver = Peer.start(Agent, 0.0), Peer.start(Receiver)
    pipe, far_end = SPAWN.Pipe()
    accepted = SPAWN.Value("q", 0, lock=False)
    hanging = SPAWN.Process(target=hang, args=(far_end, receiver.url, accepted), daemon=True)
    hanging.start()
    try:
        with platform(workers=1) as one:
            town = Town(one, prepared(one.setup, agent), agent, receiver, pipe.recv(), accepted)
            lines = rows(town, given.hanging, given.tries)
    finally:
        for process in (agent, receiver):
            process.stop()
        hanging.terminate()
    table = "\n".join([HEAD, *lines, "", f"Load average {os.getloadavg()[0]:.1f}."])
    print(table)
    (ROOT / "artifacts").mkdir(exist_ok=True)
    (ROOT / "artifacts" / "receivers.md").write_text(table + "\n", "utf-8")


def rows(town: Town, count: int, tries: int) -> list[str]:
    """Nobody hangs; then hosts, then addresses of one host, where the one that is well was never called before."""
    port, well = town.port, town.receiver.url
    hosts = [f"http://127.0.{2 + n // 250}.{1 + n % 250}:{port}/cb" for n in range(count)]
    addresses = [f"http://127.0.0.9:{port}/tenant/{n}" for n in range(count)]
    one_address = [f"http://127.0.0.8:{port}/cb"] * count
    neighbour = f"http://127.0.0.9:{port}/well"
    return [
        town.row("nobody", [], well, tries),
        town.row(f"{count} hosts", hosts, well, tries),
        town.row(f"{count} addresses of a host, of which another is well", addresses, neighbour, tries),
        town.row(f"one address, with {count} callbacks", one_address, well, tries, at_a_time=20),
    ]


def prepared(setup: Setup, agent: Peer) -> str:
    """Set up the namespace; returns the client's key."""
    space = f"told-{secrets.token_hex(4)}"
    setup.call("POST", "/v1/namespaces", {"name": space})
    spec = {**dict[str, Any](MANIFEST["spec"]), "endpoints": {"invoke": agent.url, "health": agent.url}}
    setup.call("PUT", f"/v1/agents/{AGENT}?namespace={space}", {**MANIFEST, "spec": spec})
    return str(setup.call("POST", "/v1/clients", client(space))["key"])


if __name__ == "__main__":
    main()

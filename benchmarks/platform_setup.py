"""Sets a platform up over its own API: namespace, client, agent, instance, and a route whose breaker stays shut."""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from benchmarks.load import Target
from benchmarks.peers import Peer

AGENT, ABILITY, AMPLE = "bench-agent", "bench.classify", 1_000_000
CAPABILITY = {
    "name": "classify",
    "description": "Answers every ticket alike after a set time",
    "inputSchema": {
        "type": "object",
        "required": ["ticketTitle", "ticketContent"],
        "properties": {"ticketTitle": {"type": "string"}, "ticketContent": {"type": "string"}},
    },
    "outputSchema": {"type": "object", "required": ["category", "confidence"]},
    "requestSample": {"ticketTitle": "Cannot log in", "ticketContent": "Password refused", "channel": "app"},
    "sideEffects": False,
}
MANIFEST = {
    "apiVersion": "agent-reach/v1",
    "kind": "AgentManifest",
    "metadata": {"name": AGENT, "version": "1.0.0"},
    "spec": {
        "displayName": "Simulated agent",
        "owner": "bench",
        "capabilities": [CAPABILITY],
        "limits": {"maxConcurrency": 1000, "timeoutMs": 30000},
        "probe": {"type": "http", "expect": {"status": 200, "json": {"status": "ok"}}},
    },
}
ROUTE = {
    "ability": ABILITY,
    "strategy": "least_conn",
    "candidates": [{"agent": AGENT, "capability": "classify"}],
    "retry": {"maxAttempts": 3},
    "breaker": {
        "failureShare": 1.0,
        "minVolume": AMPLE,
        "windowMs": 300000,
        "openMs": 1000,
        "consecutive": AMPLE,
    },
}
PATIENCE = {"timeoutMs": 30000, "timeoutBudgetMs": 900000, "ttlMs": 1200000}  # a backlog may wait its turn


@dataclass
class Setup:
    """An operator's access to a platform."""

    base_url: str
    operator_key: str

    @classmethod
    def from_demo(cls, path: Path, base_url: str | None = None) -> "Setup":
        """Read the access data that `manage.py up` wrote."""
        demo = json.loads(path.read_text(encoding="utf-8"))
        return cls((base_url or demo["baseUrl"]).rstrip("/"), demo["operatorKey"])

    @contextmanager
    def prepared(self, agent: Peer, receiver: Peer) -> Iterator[Target]:
        """Set up a namespace of its own; the instance gets heartbeats within the block."""
        namespace = f"bench-{secrets.token_hex(4)}"
        self.call("POST", "/v1/namespaces", {"name": namespace})
        client_key = self.call("POST", "/v1/clients", client(namespace))["key"]
        credentials = self.call("POST", f"/v1/agents/{AGENT}/credentials", {"namespace": namespace})
        as_agent = Setup(self.base_url, credentials["key"])
        as_agent.call("PUT", f"/v1/agents/{AGENT}", MANIFEST)
        instance = f"/v1/agents/{AGENT}/instances/one"
        addresses = {"invokeUrl": agent.url, "healthUrl": agent.url, "maxConcurrency": 1000}
        interval = as_agent.call("PUT", instance, addresses)["heartbeatIntervalMs"] / 1000
        table = {"apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": namespace, "routes": [ROUTE]}
        self.call("PUT", f"/v1/routes/{ABILITY}?namespace={namespace}", table)
        stop = threading.Event()
        heart = threading.Thread(target=as_agent.beat, args=(f"{instance}/heartbeat", interval, stop), daemon=True)
        heart.start()
        try:
            yield Target(f"{self.base_url}/v1/reach", client_key, ABILITY, receiver.url, PATIENCE)
        finally:
            stop.set()
            heart.join()

    def call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer's document; raises RuntimeError with the problem's text."""
        headers = {"Authorization": f"Bearer {self.operator_key}"}
        answer = requests.request(method, self.base_url + path, json=body, headers=headers, timeout=30)
        if answer.status_code >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:1000]}")
        return answer.json() if answer.content else {}

    def beat(self, path: str, interval: float, stop: threading.Event) -> None:
        """Send heartbeats until stopped; one that fails is only missed."""
        while not stop.wait(interval):
            try:
                self.call("POST", path, {"status": "ok"})
            except (RuntimeError, requests.RequestException) as error:
                print(f"heartbeat failed: {error}")


def client(namespace: str) -> dict[str, Any]:
    """Return the request for a client without limits; what limits cost is `benchmarks.admission`'s question."""
    scopes = ["tasks:write", "tasks:read"]
    return {
        "name": f"{namespace}-caller",
        "namespace": namespace,
        "scopes": scopes,
        "abilities": ["*"],
    }

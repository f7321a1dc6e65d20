import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.platform_setup import Setup

PEER: Any = SimpleNamespace(url="http://127.0.0.1:1/")


class PlatformDouble(ThreadingHTTPServer):
    """Answers every request alike and keeps (method, path, key, body)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, str, Any]] = []
        self.beaten = threading.Event()
        self.status = 201


class Handler(BaseHTTPRequestHandler):
    server: PlatformDouble

    def answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Authorization"].removeprefix("Bearer ")
        self.server.seen.append((self.command, self.path.partition("?")[0], key, body))
        if self.path.endswith("/heartbeat"):
            self.server.beaten.set()
        self.send_response(self.server.status)
        self.end_headers()
        whose = "agent-key" if self.path.endswith("/credentials") else "client-key"
        self.wfile.write(json.dumps({"key": whose, "heartbeatIntervalMs": 10}).encode())

    do_PUT = do_POST = answer  # noqa: N815 - the names http.server asks for

    def log_message(self, *_: object) -> None:
        """Keep the test output quiet."""


@pytest.fixture
def double() -> Iterator[PlatformDouble]:
    server = PlatformDouble()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def setup(double: PlatformDouble, tmp_path: Path) -> Setup:
    demo = tmp_path / "demo.json"
    demo.write_text(json.dumps({"baseUrl": f"http://127.0.0.1:{double.server_port}/", "operatorKey": "op"}))
    return Setup.from_demo(demo)


def test_operator_and_agent_each_do_their_part(setup: Setup, double: PlatformDouble) -> None:
    with setup.prepared(PEER, PEER) as target:
        assert double.beaten.wait(5)
    assert [(method, path, key) for method, path, key, _ in double.seen][:6] == [
        ("POST", "/v1/namespaces", "op"),
        ("POST", "/v1/clients", "op"),
        ("POST", "/v1/agents/bench-agent/credentials", "op"),
        ("PUT", "/v1/agents/bench-agent", "agent-key"),
        ("PUT", "/v1/agents/bench-agent/instances/one", "agent-key"),
        ("PUT", "/v1/routes/bench.classify", "op"),
    ]
    assert target.key == "client-key"


def test_tasks_are_posted_to_the_ability_that_was_routed(setup: Setup, double: PlatformDouble) -> None:
    with setup.prepared(PEER, PEER) as target:
        asked = json.loads(target.body("m-1"))
    table = next(body for _, path, _, body in double.seen if path.startswith("/v1/routes/"))
    assert asked["target"]["ability"] == table["routes"][0]["ability"]
    assert (asked["correlationId"], asked["payload"]["marker"]) == ("m-1", "m-1")


def test_a_refusal_stops_the_bench_with_its_text(setup: Setup, double: PlatformDouble) -> None:
    double.status = 422
    with pytest.raises(RuntimeError, match="POST /v1/namespaces: 422"), setup.prepared(PEER, PEER):
        pass

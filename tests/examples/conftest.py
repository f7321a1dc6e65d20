"""Starts the sample programs as the processes that they are, on free loopback ports."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Program:
    """A running sample program; `url` is what it says it listens on."""

    def __init__(self, module: str, environment: dict[str, str]):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("REACH_", "AGENT_"))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env=inherited | environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = json.loads(self.line())["url"]

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout
        return self.process.stdout.readline()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=15)


class PlatformDouble:
    """Answers like the platform's agent endpoints and keeps (method, path) of every request, in order."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[tuple[str, str]] = []
        self.arrived = threading.Condition()
        self.registered = True
        double = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.dumps(double.answer_to(self.command, self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_POST = do_DELETE = answer  # noqa: N815 (names that http.server asks for)

            def log_message(self, *_: object) -> None:
                """Keep the test output quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer_to(self, method: str, path: str) -> dict[str, object]:
        with self.arrived:
            self.requests.append((method, path))
            self.arrived.notify_all()
        return {"heartbeatIntervalMs": 20, "nextHeartbeatMs": 20, "registered": self.registered}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def wait_for(self, method: str, suffix: str, times: int = 1) -> None:
        """Wait until requests of this method and path ending have come in; fail after 10 seconds."""

        def enough() -> bool:
            return sum(m == method and p.endswith(suffix) for m, p in self.requests) >= times

        with self.arrived:
            assert self.arrived.wait_for(enough, timeout=10), f"no {method} …{suffix} in {self.requests}"


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    """Factory of running programs: start(module, NAME=value, …)."""
    programs: list[Program] = []

    def start_program(module: str, **environment: str) -> Program:
        programs.append(Program(module, environment))
        return programs[-1]

    yield start_program
    for program in programs:
        program.process.kill()
        program.process.communicate()


@pytest.fixture
def platform_double() -> Iterator[PlatformDouble]:
    double = PlatformDouble()
    yield double
    double.close()

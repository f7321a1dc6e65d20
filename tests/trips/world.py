"""A whole platform as real processes, and simulated agents and receivers around it, reached over HTTP only."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import requests

ROOT = Path(__file__).resolve().parents[2]
FINAL = {"SUCCEEDED", "FAILED", "TIMEOUT", "CANCELLED"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(check: Callable[[], Any], seconds: float = 30.0, what: str = "it") -> Any:
    """The first true value of `check`, asked every 50 ms."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)
    return found


class Platform:
    """`manage.py up` in a data directory of its own."""

    def __init__(self, **settings: str) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="reach-trip-", ignore_cleanup_errors=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        away = ("DATABASE_URL", "REDIS_URL", "REACH_CONFIG", "REACH_PUBLIC_URL", "DJANGO_SETTINGS_MODULE")
        env = {name: value for name, value in os.environ.items() if name not in away}
        env |= {"REACH_DATA_DIR": self.home.name, "REACH_PORT": str(self.port), "REACH_WORKERS": "2", **settings}
        self.env = env
        self.log = Path(self.home.name, "up.log")
        with self.log.open("wb") as output:
            command = [sys.executable, str(ROOT / "manage.py"), "up"]
            self.process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=output, stderr=output)
        try:
            until(self._is_ready, 240, "readiness")
            self.demo = json.loads(Path(self.home.name, "demo.json").read_text("utf-8"))
        except AssertionError as error:
            error.add_note(self.log.read_text("utf-8", "replace")[-5000:])
            self.stop()
            raise

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, "the platform ended by itself"
        try:
            return requests.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def wait_ready(self) -> None:
        until(self._is_ready, 120, "readiness")

    def processes(self, *words: str) -> list[psutil.Process]:
        """The platform's processes whose command line holds all the words."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                line = " ".join(child.cmdline())
            except psutil.Error:
                continue
            if all(word in line for word in words):
                found.append(child)
        return found

    def operator(self, method: str, path: str, **request: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.demo['operatorKey']}"}
        answer = requests.request(method, self.url + path, headers=headers, timeout=30, **request)
        assert answer.status_code < 300, (path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            self.home.cleanup()


class Outside:
    """One HTTP server that plays the agents and the callback receiver and remembers every call."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.callbacks: list[dict[str, Any]] = []
        self.delay_s = 0.0
        self.agent_status, self.receiver_status = 200, 200
        self.running, self.most_running = 0, 0
        self._counting = threading.Lock()
        outside = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer({"status": "ok"})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/callback":
                    outside.callbacks.append(body | {"webhookId": self.headers["webhook-id"]})
                    self._answer({}, outside.receiver_status)
                else:
                    outside.calls.append(body)
                    outside.count(1)
                    time.sleep(outside.delay_s)
                    outside.count(-1)
                    self._answer({"status": "SUCCEEDED", "data": {"echo": body["payload"]}}, outside.agent_status)

            def _answer(self, document: Any, status: int = 200) -> None:
                raw = json.dumps(document).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    pass  # the platform did not wait

            def log_message(self, *args: Any) -> None:
                pass

        ThreadingHTTPServer.request_queue_size = 256
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, more: int) -> None:
        with self._counting:
            self.running += more
            self.most_running = max(self.most_running, self.running)

    def calls_of(self, task_id: str) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["taskId"] == task_id]

    def callbacks_of(self, task_id: str) -> list[dict[str, Any]]:
        return [body for body in self.callbacks if body["taskId"] == task_id]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class World:
    """A fresh namespace of the platform with one client, one agent and its ability `work.echo`."""

    def __init__(self, platform: Platform, **limits: Any) -> None:
        self.platform, self.outside = platform, Outside()
        self.namespace = f"trip-{uuid.uuid4().hex[:12]}"
        platform.operator("POST", "/v1/namespaces", json={"name": self.namespace})
        client = {
            "name": "caller",
            "namespace": self.namespace,
            "scopes": ["tasks:write", "tasks:read"],
            "abilities": ["*"],
        }
        self.key = platform.operator("POST", "/v1/clients", json=client)["key"]
        self._register(limits)

    def _register(self, limits: dict[str, Any]) -> None:
        at = f"?namespace={self.namespace}"
        schema = {"type": "object"}
        manifest = {
            "apiVersion": "agent-reach/v1", "kind": "AgentManifest", "metadata": {"name": "echo", "version": "1.0.0"},
            "spec": {
                "owner": "team", "limits": {"maxConcurrency": 200, **limits},
                "capabilities": [{"name": "echo", "inputSchema": schema, "outputSchema": schema, "sideEffects": False}],
                "endpoints": {"invoke": f"{self.outside.url}/invoke", "health": f"{self.outside.url}/health"},
            },
        }  # fmt: skip
        self.platform.operator("PUT", f"/v1/agents/echo{at}", json=manifest)
        route = {
            "apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": self.namespace,
            "routes": [{"ability": "work.echo", "candidates": [{"agent": "echo", "capability": "echo"}],
                        "retry": {"maxAttempts": 3, "backoffMs": [200, 400], "jitterMs": 50}}],
        }  # fmt: skip
        self.platform.operator("PUT", f"/v1/routes{at}", json=route)

    def request(self, method: str, path: str, **more: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.key}", **more.pop("headers", {})}
        return requests.request(method, self.platform.url + path, headers=headers, timeout=40, **more)

    def reach(self, payload: Any = None, **more: Any) -> requests.Response:
        headers = more.pop("headers", {})
        body = {
            "target": {"ability": "work.echo"},
            "payload": payload or {"n": 1},
            "callback": {"type": "http", "url": f"{self.outside.url}/callback"},
            **more,
        }
        return self.request("POST", "/v1/reach", json=body, headers=headers)

    def submit(self, payload: Any = None, **more: Any) -> str:
        answer = self.reach(payload, **more)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["taskId"])

    def submit_many(self, count: int, **more: Any) -> list[str]:
        with ThreadPoolExecutor(10) as pool:
            return list(pool.map(lambda n: self.submit({"n": n}, **more), range(count)))

    def task(self, task_id: str) -> dict[str, Any]:
        return dict(self.request("GET", f"/v1/tasks/{task_id}").json())

    def ended(self, task_id: str, seconds: float = 60.0) -> dict[str, Any]:
        def final() -> Any:
            task = self.task(task_id)
            return task if task.get("state") in FINAL else None

        return dict(until(final, seconds, f"the end of {task_id}"))

    def all_told(self, ids: list[str], seconds: float = 90.0) -> None:
        """Every task has succeeded, and its one callback came."""
        for task_id in ids:
            assert self.ended(task_id, seconds)["state"] == "SUCCEEDED", self.task(task_id)
        until(lambda: all(self.outside.callbacks_of(one) for one in ids), seconds, "every callback")
        for task_id in ids:
            assert len({body["webhookId"] for body in self.outside.callbacks_of(task_id)}) == 1

    def called_once(self, ids: list[str]) -> None:
        """Each task had exactly one agent call; what happened to those with another number is in the failure."""
        odd = [one for one in ids if len(self.outside.calls_of(one)) != 1]
        assert not odd, [(len(self.outside.calls_of(one)), self._journey(one)) for one in odd[:3]]

    def _journey(self, task_id: str) -> dict[str, Any]:
        return dict(self.request("GET", f"/v1/tasks/{task_id}/journey").json())

    def close(self) -> None:
        self.outside.close()

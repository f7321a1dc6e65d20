"""Simulated instances that can fall ill: one process serves any number, and beats for them.

Its standard input takes one JSON object a line: {"instance": "agent/one", "invoke": …, "health": …, "beat": …}; what is
left out stays as it was. The first line says where the platform is and which instances there are.
"""

import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

BEAT_S = 10.0
WORK_S, SLOW_S, HANG_S = 0.02, 2.0, 60.0
GOOD = {"status": "SUCCEEDED", "data": {"category": "login", "confidence": 0.9}}
INVOKE = {  # mode → (seconds, status, body)
    "ok": lambda: (WORK_S, 200, GOOD),
    "slow": lambda: (SLOW_S, 200, GOOD),
    "half": lambda: (
        (WORK_S, 500, {"error": {"message": "no memory"}}) if random.random() < 0.5 else (WORK_S, 200, GOOD)
    ),
    "text": lambda: (WORK_S, 200, "ERROR: the database is gone"),
}
HEALTH = {
    "ok": lambda: (0.0, 200, {"status": "ok", "db": {"status": "ok"}}),
    "text": lambda: (0.0, 200, "ERROR: the database is gone"),
    "down": lambda: (0.0, 200, {"status": "DOWN"}),
    "hang": lambda: (HANG_S, 200, {"status": "ok"}),
}
BEATS = {
    "ok": {"status": "ok", "components": {"db": "ok"}},
    "down": {"status": "ok", "components": {"db": "down"}},
    "draining": {"status": "draining"},
    "none": None,
}


class Instance:
    """One instance: how it behaves, and its heartbeats."""

    def __init__(self, name: str, address: str, platform: str, headers: dict[str, str], namespace: str):
        agent_id, instance_id = name.split("/")
        self.mode = {"invoke": "ok", "health": "ok", "beat": "ok"}
        self._place = f"{platform}/v1/agents/{agent_id}/instances/{instance_id}"
        self._address, self._query, self._headers = address, f"?namespace={namespace}", headers
        self._changed = threading.Event()
        threading.Thread(target=self._live, daemon=True).start()

    def set(self, mode: dict[str, str]) -> None:
        said = "beat" in mode and mode["beat"] != self.mode["beat"]
        self.mode.update(mode)
        if said:
            self._changed.set()

    def _live(self) -> None:
        registered = False
        while True:
            try:
                registered = registered or self._register()
                registered = self._beat() if registered else False
            except (requests.RequestException, ValueError):
                pass
            self._changed.wait(BEAT_S if registered else 1.0)
            self._changed.clear()

    def _register(self) -> bool:
        body = {"invokeUrl": f"{self._address}/invoke", "healthUrl": f"{self._address}/health"}
        return requests.put(self._place + self._query, json=body, headers=self._headers, timeout=5).ok

    def _beat(self) -> bool:
        said = BEATS[self.mode["beat"]]
        if said is None:
            return True
        path = self._place + "/heartbeat" + self._query
        return bool(requests.post(path, json=said, headers=self._headers, timeout=5).json()["registered"])


def handler(instances: dict[str, Instance]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(*HEALTH[self._instance().mode["health"]]())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(*INVOKE[self._instance().mode["invoke"]]())

        def _instance(self) -> Instance:
            return instances["/".join(self.path.split("/")[1:3])]

        def _answer(self, seconds: float, status: int, body: Any) -> None:
            time.sleep(seconds)
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            kind = "text/plain" if isinstance(body, str) else "application/json"
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)
            except OSError:
                pass  # the platform did not wait

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


class Server(ThreadingHTTPServer):
    """Quiet about connections that the network cut."""

    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main() -> None:
    """Serve until standard input ends."""
    told = json.loads(sys.stdin.readline())
    instances: dict[str, Instance] = {}
    server = Server(("127.0.0.1", told["port"]), handler(instances))
    headers = {"Authorization": f"Bearer {told['key']}"}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, address in told["instances"].items():
        instances[name] = Instance(name, f"{address}/{name}", told["platform"], headers, told["namespace"])
    for line in sys.stdin:
        mode = json.loads(line)
        instances[mode.pop("instance")].set(mode)


if __name__ == "__main__":
    main()

"""The two systems under test, each started afresh for its turn on the data directory that it keeps."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import requests

from benchmarks import platform_setup, processes
from benchmarks.load import Target
from benchmarks.peers import Peer
from reach_platform.embedded.servers import Servers
from reach_platform.processes import spawn, wait_for_end

ROOT = Path(__file__).parent.parent
START_SECONDS = 120.0


class System(Protocol):
    """A system between callers and agents."""

    name: str

    def start(self, agent: Peer, receiver: Peer) -> Target: ...

    def roots(self) -> list[int]: ...

    def stop(self) -> None: ...


class PlainCelery:
    """Django, DRF and Celery: gunicorn with 2 workers of 8 threads, and a gevent worker of 100."""

    def __init__(self, name: str, data_dir: Path, options: dict[str, str]):
        self.name, self._data_dir, self._options = name, data_dir, options
        self._stack, self._roots = ExitStack(), list[int]()

    def start(self, agent: Peer, receiver: Peer) -> Target:
        """Start servers, web and worker; return once the web side answers."""
        with ExitStack() as stack:
            servers = stack.enter_context(Servers(self._data_dir))
            port = processes.free_port()
            environment = self._environment(servers, agent)
            manage = [sys.executable, "-m", "django", "migrate", "--run-syncdb", "--verbosity=0"]
            subprocess.run(manage, cwd=ROOT, env=environment, check=True)
            web = ["gunicorn", "-w", "2", "-k", "gthread", "--threads", "8", "--keep-alive", "65"]
            web += ["-b", f"127.0.0.1:{port}"]
            worker = ["celery", "-A", "benchmarks.plain_celery.celery", "worker", "-P", "gevent", "-c", "100"]
            running = [
                run_module([*web, "benchmarks.plain_celery.wsgi"], environment, self._data_dir / "web.log", stack),
                run_module([*worker, "-l", "WARNING"], environment, self._data_dir / "worker.log", stack),
            ]
            wait_until_ready(f"http://127.0.0.1:{port}/healthz", running)
            self._roots = [process.pid for process in (*running, *servers.processes())]
            self._stack = stack.pop_all()
        return Target(f"http://127.0.0.1:{port}/v1/reach", "benchmark-key", "bench.echo", receiver.url)

    def roots(self) -> list[int]:
        return self._roots

    def stop(self) -> None:
        self._stack.close()

    def _environment(self, servers: Servers, agent: Peer) -> dict[str, str]:
        own = {
            "DATABASE_URL": servers.place.database_url,
            "REDIS_URL": servers.place.redis_url,
            "DJANGO_SETTINGS_MODULE": "benchmarks.plain_celery.settings",
            "AGENT_URL": agent.url,
        }
        return {**os.environ, **own, **self._options}


class Platform:
    """Agent-Reach, started by `manage.py up` in a data directory and on a port of its own."""

    name = "agent-reach"

    def __init__(self, data_dir: Path):
        self._data_dir, self._stack = data_dir, ExitStack()
        self._roots: list[int] = []

    def start(self, agent: Peer, receiver: Peer) -> Target:
        """Start the platform and set up a fresh namespace; return once it is ready."""
        port = processes.free_port()
        own = {
            "REACH_DATA_DIR": str(self._data_dir),
            "REACH_PORT": str(port),
            "REACH_OUTBOUND_ALLOW": "127.0.0.0/8",
        }
        self._data_dir.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            command = ["manage.py", "up"]
            up = run(command, {**os.environ, **own}, self._data_dir / "up.log", stack)
            base_url, demo = f"http://127.0.0.1:{port}", self._data_dir / "demo.json"
            wait_until_ready(f"{base_url}/readyz", [up])
            wait_until(demo.exists, f"{demo.name} was not written")
            self._roots = [up.pid]
            setup = platform_setup.Setup.from_demo(demo, base_url)
            target = stack.enter_context(setup.prepared(agent, receiver))
            self._stack = stack.pop_all()
        return target

    def roots(self) -> list[int]:
        return self._roots

    def stop(self) -> None:
        self._stack.close()


class GivenPlatform:
    """A platform that already runs, on this machine: BASE_URL and DEMO_JSON say where."""

    name = "agent-reach"

    def __init__(self, base_url: str, demo_json: Path):
        self._base_url, self._demo_json, self._stack = base_url, demo_json, ExitStack()

    def start(self, agent: Peer, receiver: Peer) -> Target:
        """Set up a fresh namespace."""
        setup = platform_setup.Setup.from_demo(self._demo_json, self._base_url)
        self._stack = ExitStack()
        return self._stack.enter_context(setup.prepared(agent, receiver))

    def roots(self) -> list[int]:
        return processes.find("REACH_DATA_DIR", str(self._demo_json.parent.resolve()))

    def stop(self) -> None:
        self._stack.close()


def run_module(command: list[str], environment: dict[str, str], log: Path, stack: ExitStack) -> Any:
    """Start `python -m command`; see `run`."""
    return run(["-m", *command], environment, log, stack)


def run(command: list[str], environment: dict[str, str], log: Path, stack: ExitStack) -> Any:
    """Start Python with these arguments in the project's directory; leaving the stack stops it."""
    with log.open("ab") as output:
        argv = [sys.executable, *command]
        process = spawn(argv, environment, death_signal=signal.SIGTERM, cwd=ROOT, output=output)
    stack.callback(end, process)
    return process


def end(process: Any) -> None:
    """Ask a process to end, and make it after 30 seconds."""
    process.send_signal(signal.SIGTERM)
    if not wait_for_end([process], 30.0, lambda: False):
        process.send_signal(signal.SIGKILL)


def wait_until_ready(url: str, running: list[Any]) -> None:
    """Return once the address answers 200; raises RuntimeError when a process ends or it takes too long."""

    def ready() -> bool:
        if any(process.poll() is not None for process in running):
            raise RuntimeError(f"a process ended before {url} was ready: see the logs in its data directory")
        try:
            return requests.get(url, timeout=5).status_code == 200
        except requests.RequestException:
            return False

    wait_until(ready, f"{url} is not ready")


def wait_until(condition: Callable[[], bool], problem: str) -> None:
    """Return once the condition holds; raises RuntimeError with the problem after START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{problem} after {START_SECONDS:.0f} s")
        time.sleep(0.1)

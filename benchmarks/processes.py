"""CPU time and memory of a whole system: its root processes and everything below them."""

import socket
from collections.abc import Iterable

import psutil  # type: ignore[import-untyped]


def find(variable: str, value: str) -> list[int]:
    """Return the ids of the processes that carry this variable in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable) == value:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def cpu_seconds(roots: Iterable[int]) -> dict[str, float]:
    """Return the CPU seconds that the trees under the roots have spent so far, by program.

    A PostgreSQL backend that has ended since counts through the time its parent got when it was reaped.
    """
    spent: dict[str, float] = {}
    for process in tree(roots):
        try:
            times, name = process.cpu_times(), program(process)
        except psutil.Error:
            continue
        own = times.user + times.system + times.children_user + times.children_system
        spent[name] = spent.get(name, 0.0) + own
    return spent


def between(earlier: dict[str, float], later: dict[str, float]) -> dict[str, float]:
    """Return what was spent between two readings, by program."""
    return {name: value - earlier.get(name, 0.0) for name, value in later.items()}


def memory_bytes(roots: Iterable[int]) -> int:
    """Return the proportional set size of the trees; reading it takes long enough to disturb a measurement."""
    total = 0
    for process in tree(roots):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def tree(roots: Iterable[int]) -> list[psutil.Process]:
    """Return the live processes at and under the roots, each once."""
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        try:
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                found[process.pid] = process
        except psutil.Error:
            continue
    return list(found.values())


def program(process: psutil.Process) -> str:
    """Return what a process is in the table: postgres, redis, or the word of its command line that tells it apart."""
    command = " ".join(process.cmdline()) or process.name()
    for word in ("postgres", "redis-server", "gunicorn", "granian", " beat", " worker"):
        if word in command:
            return word.strip()
    return "other"


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

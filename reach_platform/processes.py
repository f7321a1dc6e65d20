"""Child processes that end with their parent, and processes found running that are taken over."""

import ctypes
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

PR_SET_PDEATHSIG = 1


class RunningProcess(Protocol):
    """What the supervisor needs of a process, whether it is a child or was taken over."""

    pid: int

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int) -> None: ...


class AdoptedProcess:
    """A process of an earlier run that still lives: watched and stopped by its id."""

    def __init__(self, pid: int):
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Returns None while it lives, then -1: only a parent learns an exit status."""
        try:
            signal.pidfd_send_signal(self._descriptor, 0)
        except ProcessLookupError:
            return -1
        return None

    def send_signal(self, sig: int) -> None:
        try:
            signal.pidfd_send_signal(self._descriptor, sig)
        except ProcessLookupError:
            pass


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    death_signal: int = signal.SIGKILL,
    user: str | None = None,
    cwd: Path | None = None,
    output: IO[Any] | int | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, so that a Ctrl-C in the terminal reaches only us.

    It gets `death_signal` when this process dies, however it dies. Call it from the main thread only: the kernel takes
    the end of the calling thread for the parent's death.
    """
    account = pwd.getpwnam(user) if user else None
    return subprocess.Popen(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        umask=0o077 if account else -1,
        # It runs after the change of user, which would clear it.
        preexec_fn=_die_with_parent(death_signal),  # noqa: PLW1509 - one thread, nothing but two system calls
    )


def wait_for_end(processes: Sequence[RunningProcess], seconds: float, hurried: Callable[[], bool]) -> bool:
    """Returns whether all ended within the time; gives up at once when `hurried` says so."""
    end = time.monotonic() + seconds
    while any(process.poll() is None for process in processes):
        if time.monotonic() > end or hurried():
            return False
        time.sleep(0.05)
    return True


def _die_with_parent(death_signal: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare

"""Starts child processes, restarts what dies, and stops them all in order."""

import logging
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from pathlib import Path
from types import FrameType

from reach_platform.processes import RunningProcess, spawn, wait_for_end

log = logging.getLogger("reach.supervisor")

# Seconds before each restart in a row; short enough that a process which needs 2 s to start is up again within 5 s.
PAUSES = (0.0, 0.5, 1.0, 2.0)
SETTLED_AFTER_S = 10.0
# `make` forwards the signal that the terminal has already sent: both are one wish.
SAME_WISH_S = 1.0


class Phase(IntEnum):
    """The order of the stop: no new periodic jobs, then the work that runs, then its agents, which say goodbye to the
    web server, and the servers last. What is accepted meanwhile is kept for the next start."""

    BEAT = 0
    WORKER = 1
    AGENT = 2
    WEB = 3
    REDIS = 4
    POSTGRES = 5


@dataclass(frozen=True)
class ChildSpec:
    """A process to keep alive: `phase` orders the stop (lowest first), `grace` is its time to finish in seconds."""

    name: str
    start: Callable[[], RunningProcess]
    phase: int
    grace: float
    stop_signal: int = signal.SIGTERM


def program(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    phase: int,
    grace: float,
    death_signal: int = signal.SIGKILL,
    cwd: Path | None = None,
) -> ChildSpec:
    """Returns the spec of a program whose output goes where ours goes; it gets `death_signal` if we are killed."""
    return ChildSpec(name, lambda: spawn(argv, env, death_signal=death_signal, cwd=cwd), phase, grace)


class Child:
    """One spec and the process that currently fulfils it."""

    def __init__(self, spec: ChildSpec):
        self.spec = spec
        self.process: RunningProcess | None = None
        self.failures = 0
        self.started_at = 0.0
        self.due_at = 0.0

    def start(self, now: float) -> None:
        self.started_at = now
        try:
            self.process = self.spec.start()
        except Exception:
            log.exception("a process could not be started", extra={"child": self.spec.name})
            self._fail(now)
        else:
            log.info("started", extra={"child": self.spec.name, "pid": self.process.pid})

    def watch(self, now: float) -> None:
        """Restarts the process if it has ended and its pause is over."""
        if self.process is not None and (code := self.process.poll()) is not None:
            log.warning("ended by itself", extra={"child": self.spec.name, "pid": self.process.pid, "code": code})
            self._sweep_up()
            if now - self.started_at > SETTLED_AFTER_S:
                self.failures = 0
            self._fail(now)
        if self.process is None and now >= self.due_at:
            self.start(now)

    def _fail(self, now: float) -> None:
        self.process = None
        self.due_at = now + PAUSES[min(self.failures, len(PAUSES) - 1)]
        self.failures += 1

    def _sweep_up(self) -> None:
        """Kills what a killed parent left in its session, such as web workers that still hold the port."""
        if isinstance(self.process, subprocess.Popen):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            log.warning("killed, it did not end in time", extra={"child": self.spec.name, "pid": self.process.pid})
            self.process.send_signal(signal.SIGKILL)
        self._sweep_up()


class Supervisor:
    """Keeps children alive until a signal or its caller ends it; use it from the main thread.

    A first SIGINT, SIGTERM or SIGHUP stops the children in order, each phase with its grace; a second one hastens.
    """

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.signals = 0
        self._last_signal = 0.0
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def install_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def add(self, spec: ChildSpec, process: RunningProcess | None = None) -> Child:
        """Starts a child, unless it was started already as `process`; it is watched from now on."""
        child = Child(spec)
        self.children.append(child)
        if process is None:
            child.start(time.monotonic())
        else:
            child.process, child.started_at = process, time.monotonic()
        return child

    def watch(self, until: Callable[[], bool] = lambda: False) -> None:
        """Returns after a signal, or once `until` says so; restarts what dies meanwhile."""
        while not self.signals and not until():
            now = time.monotonic()
            for child in self.children:
                child.watch(now)
            self._sleep(0.25)

    def stop(self) -> None:
        """Stops every child, phase by phase; what outlives its grace is killed."""
        for _, phase in groupby(sorted(self.children, key=lambda c: c.spec.phase), key=lambda c: c.spec.phase):
            self._stop_phase(list(phase))
        self.children.clear()
        log.info("stopped")

    def _stop_phase(self, children: list[Child]) -> None:
        running = [child for child in children if child.process is not None]
        for child in running:
            if child.process and child.process.poll() is None:
                log.info("stopping", extra={"child": child.spec.name, "pid": child.process.pid})
                child.process.send_signal(child.spec.stop_signal)
        grace = max((child.spec.grace for child in running), default=0.0)
        wait_for_end([child.process for child in running if child.process], grace, self._hastened(grace))
        for child in running:
            child.kill()

    def _hastened(self, grace: float) -> Callable[[], bool]:
        # Hastened, a phase still gets a moment: a database killed at once would only take longer at the next start.
        began = time.monotonic()
        return lambda: self.signals > 1 and time.monotonic() - began > min(grace, 2.0)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if not self.signals or now - self._last_signal > SAME_WISH_S:
            self.signals += 1
        self._last_signal = now

    def _sleep(self, seconds: float) -> None:
        if select.select([self._wake_read], [], [], seconds)[0]:
            os.read(self._wake_read, 4096)

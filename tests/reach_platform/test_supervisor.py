import os
import signal
import subprocess
import sys
import time

import pytest

from reach_platform.processes import AdoptedProcess, wait_for_end
from reach_platform.supervisor import PAUSES, ChildSpec, Supervisor, program

# Writes its name and signal to the log when it is asked to end.
POLITE = """
import pathlib, signal, sys, time
def bye(number, frame):
    with open(sys.argv[1], "a") as log: log.write(sys.argv[2] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, bye)
pathlib.Path(sys.argv[1] + "." + sys.argv[2]).touch()
time.sleep(60)
"""
STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[1], 'w'); time.sleep(60)"
)
PARENT = """
import subprocess, sys
child = subprocess.Popen(["sleep", "60"])
open(sys.argv[1], "w").write(str(child.pid))
child.wait()
"""


@pytest.fixture
def supervisor():
    running = Supervisor()
    yield running
    for child in running.children:
        child.kill()


def python(name, code, *arguments, phase=0, grace=5.0):
    return program(name, [sys.executable, "-c", code, *arguments], os.environ, phase=phase, grace=grace)


def gone(pid):
    try:
        return AdoptedProcess(pid).poll() is not None
    except ProcessLookupError:
        return True


def test_a_killed_process_is_up_again_at_once(supervisor):
    child = supervisor.add(python("sleeper", "import time; time.sleep(60)"))
    first = child.process.pid
    child.process.send_signal(signal.SIGKILL)
    began = time.monotonic()
    supervisor.watch(until=lambda: child.process is not None and child.process.pid != first)
    assert time.monotonic() - began < 1.0
    assert child.process.poll() is None


def test_a_process_that_keeps_dying_is_tried_again_without_end(supervisor):
    starts = []

    def start():
        starts.append(time.monotonic())
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])

    supervisor.add(ChildSpec("broken", start, 0, 1.0))
    supervisor.watch(until=lambda: len(starts) >= 4)
    assert starts[3] - starts[2] >= PAUSES[2]


def test_a_start_that_raises_is_tried_again(supervisor):
    calls = []

    def start():
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no such program")
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

    child = supervisor.add(ChildSpec("late", start, 0, 1.0))
    supervisor.watch(until=lambda: child.process is not None)
    assert len(calls) == 2


def test_children_end_in_the_order_of_their_phases(supervisor, tmp_path):
    log = tmp_path / "log"
    for name, phase in (("servers", 2), ("web", 0), ("workers", 1)):
        supervisor.add(python(name, POLITE, str(log), name, phase=phase))
    supervisor.watch(until=lambda: len(list(tmp_path.glob("log.*"))) == 3)
    supervisor.stop()
    assert log.read_text().split() == ["web", "workers", "servers"]


def test_what_outlives_its_grace_is_killed(supervisor, tmp_path):
    child = supervisor.add(python("stubborn", STUBBORN, str(tmp_path / "up"), grace=0.3))
    supervisor.watch(until=(tmp_path / "up").exists)
    process = child.process
    supervisor.stop()
    assert wait_for_end([process], 5, lambda: False)


def test_what_a_killed_parent_leaves_behind_is_swept_up(supervisor, tmp_path):
    file = tmp_path / "pid"
    child = supervisor.add(python("parent", PARENT, str(file)))
    supervisor.watch(until=lambda: file.exists() and bool(file.read_text()))
    orphan = int(file.read_text())
    child.process.send_signal(signal.SIGKILL)
    supervisor.watch(until=lambda: gone(orphan))
    assert gone(orphan)


RUN = """
import os, sys
from reach_platform.supervisor import Supervisor, program
supervisor = Supervisor()
supervisor.install_signals()
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
child = supervisor.add(program("child", [sys.executable, "-c", code], os.environ, phase=0, grace=30))
print(child.process.pid, flush=True)
supervisor.watch()
supervisor.stop()
"""


@pytest.fixture
def supervised():
    """A supervisor in a process of its own, with one child that ignores SIGTERM: the process and the child's id."""
    running = subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True)
    child = int(running.stdout.readline())
    assert running.stdout.readline() == "up\n"
    yield running, child
    running.kill()
    running.stdout.close()
    running.wait()


def test_children_die_with_a_killed_supervisor(supervised):
    running, child = supervised
    adopted = AdoptedProcess(child)
    running.kill()
    assert wait_for_end([adopted], 5, lambda: False)


def test_a_second_signal_hastens_the_stop(supervised):
    running, child = supervised
    running.send_signal(signal.SIGINT)
    time.sleep(1.2)  # two signals within a second are one wish
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.wait(10) == 0
    assert gone(child)


def test_the_same_wish_sent_twice_does_not_hasten(supervised):
    running, _ = supervised
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(2.5)


def test_a_process_that_was_started_before_is_watched_too(supervisor):
    spec = python("early", "import time; time.sleep(60)")
    process = spec.start()
    child = supervisor.add(spec, process)
    process.send_signal(signal.SIGKILL)
    supervisor.watch(until=lambda: child.process is not None and child.process.pid != process.pid)
    assert child.process.poll() is None

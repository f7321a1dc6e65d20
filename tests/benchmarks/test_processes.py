import os
import subprocess
import sys

from benchmarks import processes

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def test_the_time_of_ended_children_counts() -> None:
    script = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\nprint('done', flush=True)\ninput()"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout
        assert parent.stdout.readline() == "done\n"
        assert sum(processes.sample([parent.pid]).cpu.values()) >= 0.3
    finally:
        parent.kill()
        parent.communicate()


def test_only_what_was_spent_between_two_samples_counts() -> None:
    sample = processes.sample([os.getpid()])
    assert set(sample.cpu_since(sample).values()) == {0.0}
    assert sum(sample.memory.values()) > 0


def test_processes_are_found_by_their_environment() -> None:
    found = {**os.environ, "REACH_BENCH_MARK": "here"}
    sleeper = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], env=found,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert sleeper.stdout
        sleeper.stdout.readline()
        assert processes.find("REACH_BENCH_MARK", "here") == [sleeper.pid]
    finally:
        sleeper.kill()
        sleeper.communicate()

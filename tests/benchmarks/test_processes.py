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
        assert sum(processes.cpu_seconds([parent.pid]).values()) >= 0.3
    finally:
        parent.kill()
        parent.communicate()


def test_only_what_was_spent_between_two_samples_counts() -> None:
    assert processes.between({"worker": 1.0}, {"worker": 1.5, "beat": 0.2}) == {"worker": 0.5, "beat": 0.2}


def test_memory_counts_the_whole_tree() -> None:
    script = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(flush=True); input()'])"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    parent = subprocess.Popen([sys.executable, "-c", script], **pipes)
    try:
        assert parent.stdout
        parent.stdout.readline()
        assert len(processes.tree([parent.pid])) == 2
        assert processes.memory_bytes([parent.pid]) > 2**21
    finally:
        parent.communicate(b"\n")


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

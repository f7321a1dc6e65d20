"""`make demo`, as a stranger runs it."""

import io
import os
import subprocess
import sys

from reach_platform.demo import _show_failure
from tests.trips.world import ROOT


def test_the_demo_shows_two_tickets_from_end_to_end(tmp_path):
    env = {**os.environ, "REACH_DATA_DIR": str(tmp_path)}
    command = [sys.executable, str(ROOT / "manage.py"), "demo"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum("→ 202" in line for line in lines) == 2
    assert sum("SUCCEEDED" in line for line in lines) == 2
    assert sum("its signature verified" in line for line in lines) == 2
    assert sum("billing" in line for line in lines) == 2
    assert "任务已成功" in done.stdout
    assert lines[-1].startswith("✔ Done")


def test_a_failed_demo_says_why_and_shows_the_end_of_the_log(tmp_path):
    log, screen = tmp_path / "demo.log", io.StringIO()
    log.write_text("".join(f"line {number}\n" for number in range(100)), "utf-8")
    _show_failure(screen, "the callback did not come", log)
    assert "the callback did not come" in screen.getvalue()
    assert "line 99" in screen.getvalue()
    assert "line 50" not in screen.getvalue()


def test_a_demo_that_cannot_start_says_so_and_not_nothing(tmp_path):
    env = {**os.environ, "REACH_DATA_DIR": str(tmp_path / "demo"), "REACH_MAX_BODY_BYTES": "1"}
    command = [sys.executable, "-m", "reach_platform.demo"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "The demo failed: The settings are wrong" in done.stdout

"""A hook's command: the event on standard input, no shell, no secrets, an end to everything."""

import asyncio
import json
import sys
import time
import uuid

import psutil
import pytest

from common.ids import uuid7
from registry.hooks import command
from registry.hooks.messages import Due

BODY = json.dumps({"messageType": "agent.state", "reason": "$(id) 失联"}).encode()
DUE = Due(uuid7(), uuid.uuid4(), "agent.state", "a1", "", "tell", b"", BODY, 2)


@pytest.fixture
def runs(settings):
    """runs(text, *arguments) runs this Python text as the command."""

    def run(text, *arguments):
        settings.REACH_HOOK_COMMANDS = {"tell": [sys.executable, "-c", text, *arguments]}
        return asyncio.run(command.run(DUE))

    return run


def test_the_program_reads_the_event_as_json(runs, tmp_path):
    note = tmp_path / "event"
    result = runs("import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())", str(note))
    assert (result.status, result.error) == (0, None)
    assert note.read_bytes() == BODY


def test_the_environment_says_what_and_which_and_nothing_else(runs, monkeypatch):
    monkeypatch.setenv("REACH_SECRET_KEY", "s" * 40)
    result = runs(
        "import os; print(sorted(k for k in os.environ if k[0] == 'R'), os.environ['REACH_HOOK_ID']); exit(1)"
    )
    names = ["REACH_HOOK_AGENT", "REACH_HOOK_ATTEMPT", "REACH_HOOK_EVENT", "REACH_HOOK_ID"]
    assert result.error == f"exit status 1: {names} msg_{DUE.id.hex}"


def test_another_exit_status_is_a_failure_with_the_beginning_of_the_output(runs):
    result = runs("print('disk full'); exit(3)")
    assert (result.status, result.error, result.permanent) == (3, "exit status 3: disk full", False)


def test_arguments_see_no_shell(runs):
    assert "$(id) `id`" in runs("import sys; print(sys.argv[1]); exit(1)", "$(id) `id`").error


def test_a_name_that_nobody_allowed_is_not_run(settings):
    settings.REACH_HOOK_COMMANDS = {}
    assert asyncio.run(command.run(DUE)).error == "there is no command 'tell' in REACH_HOOK_COMMANDS"


def test_a_program_that_is_not_there_is_a_failure(settings):
    settings.REACH_HOOK_COMMANDS = {"tell": ["/no/such/program"]}
    assert asyncio.run(command.run(DUE)).error == "the command 'tell' does not start: No such file or directory"


def test_a_command_that_takes_too_long_is_ended_with_its_children(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "TOTAL_TIMEOUT_S", 1.0)
    note = tmp_path / "pid"
    text = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); open(sys.argv[1], 'w').write(str(p.pid))"
    )
    result = runs(f"{text}; time.sleep(60)", str(note))
    assert result.error == "TIMEOUT: not done within 1 s"
    assert ends(int(note.read_text()))


def ends(pid):
    """Whether it is gone, or about to: a signal takes effect when the process is next scheduled."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.01)
    return False


def test_what_a_repair_leaves_running_is_neither_waited_for_nor_ended(runs):
    began = time.monotonic()
    result = runs("import subprocess; print(subprocess.Popen(['sleep', '20']).pid, flush=True); exit(1)")
    left = psutil.Process(int(result.error.split()[-1]))
    assert (left.is_running(), time.monotonic() - began < 10) == (True, True)
    left.kill()


def test_endless_output_and_an_unread_event_neither_fill_memory_nor_block(runs):
    assert len(runs("print('x' * 5_000_000); exit(1)").error) < 300

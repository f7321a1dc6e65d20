import sys
import time

import psutil
import pytest

from tests.registry.probes.probing import at


@pytest.fixture
def command(settings):
    """Probes by running this Python text."""

    def run(text, **more):
        settings.REACH_PROBE_COMMANDS = {"check": [sys.executable, "-c", text]}
        return at("http://127.0.0.1:9/h", "command", command="check", **{"timeout_s": 10.0, **more})

    return run


def test_exit_status_0_is_healthy(command):
    assert command("pass").ok is True


def test_another_exit_status_is_unhealthy_and_its_output_is_shown(command):
    assert command("print('disk full'); exit(3)").reason == "exit status 3: disk full"


def test_output_that_begins_with_error_is_unhealthy(command):
    assert command("print('ERROR disk')").reason == "the output begins with ERROR: ERROR disk"


def test_a_command_nobody_allowed_is_not_run_and_says_nothing_of_the_instance(settings):
    settings.REACH_PROBE_COMMANDS = {}
    result = at("", "command", command="rm -rf /")
    assert (result.ok, result.reason) == (None, "there is no command 'rm -rf /' in REACH_PROBE_COMMANDS")


def test_a_program_that_is_not_there_says_nothing_of_the_instance(settings):
    settings.REACH_PROBE_COMMANDS = {"check": ["/no/such/program"]}
    assert at("", "command", command="check").ok is None


def test_arguments_see_no_shell(settings):
    settings.REACH_PROBE_COMMANDS = {"check": ["/bin/echo", "ERROR; $(id) `id`"]}
    assert "$(id) `id`" in at("", "command", command="check").reason


def test_a_command_that_takes_too_long_is_ended_with_its_children(command, tmp_path):
    note = tmp_path / "pid"
    text = f"import subprocess,time; p=subprocess.Popen(['sleep','60']); open({str(note)!r},'w').write(str(p.pid)); time.sleep(60)"
    started = time.monotonic()
    result = command(text, timeout_s=1.0)
    assert (result.ok, time.monotonic() - started < 5) == (False, True)
    child = int(note.read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_endless_output_neither_fills_memory_nor_blocks(command):
    result = command("print('x' * 50_000_000); exit(1)")
    assert result.reason.startswith("exit status 1: xxx")
    assert len(result.reason) < 500


def test_the_command_sees_the_address_and_no_secrets(command, monkeypatch):
    monkeypatch.setenv("REACH_SECRET_KEY", "s" * 40)
    result = command("import os; print(os.environ.get('REACH_SECRET_KEY'), os.environ['REACH_PROBE_URL']); exit(1)")
    assert result.reason == "exit status 1: None http://127.0.0.1:9/h"

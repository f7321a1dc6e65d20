"""A hook's command: a program of the operator's, started without a shell, the event as JSON on standard input."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from typing import Self

from django.conf import settings

from common import clock
from registry.hooks.messages import Due, Tried, message_id

TOTAL_TIMEOUT_S = 30.0
KEPT_BYTES = 4096
SHOWN = 200
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")  # the platform's own environment holds secrets


async def run(due: Due) -> Tried:
    """Run it once; exit status 0 = told. It is ended, with all that it started, after 30 s."""
    at, began = clock.now(), time.perf_counter()
    argv = settings.REACH_HOOK_COMMANDS.get(due.command)
    if argv is None:
        return Tried(due, at, 0, None, f"there is no command {due.command!r} in REACH_HOOK_COMMANDS")
    status, error = await _outcome(argv, due)
    return Tried(due, at, round((time.perf_counter() - began) * 1000), status, error)


async def _outcome(argv: list[str], due: Due) -> tuple[int | None, str | None]:
    """(exit status, error)"""
    with tempfile.TemporaryFile() as event, _Output() as output:
        event.write(due.body)
        event.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=event,
                stdout=output.write_end,
                stderr=asyncio.subprocess.STDOUT,
                env=environment_of(due),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return None, f"the command {due.command!r} does not start: {error.strerror}"
        try:
            code = await asyncio.wait_for(process.wait(), TOTAL_TIMEOUT_S)
        except TimeoutError:
            return None, f"TIMEOUT: not done within {TOTAL_TIMEOUT_S:g} s"
        finally:
            await _end(process)
        return code, f"exit status {code}: {output.text()[:SHOWN]}" if code else None


def environment_of(due: Due) -> dict[str, str]:
    """What the program finds in its environment besides the path and the language."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        **passed_on,
        "REACH_HOOK_EVENT": due.event,
        "REACH_HOOK_ID": message_id(due.id),
        "REACH_HOOK_ATTEMPT": str(due.number),
        "REACH_HOOK_AGENT": due.agent_id,
    }


class _Output:
    """A pipe whose beginning is kept. The rest is read too, so that the program does not wait for a reader; and its end
    is not waited for, as what a repair started in the background may hold it for ever."""

    def __enter__(self) -> Self:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._kept = b""
        asyncio.get_running_loop().add_reader(self._read_end, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._read_end)
        os.close(self._read_end)
        os.close(self.write_end)

    def text(self) -> str:
        """What came so far."""
        self._read()
        return self._kept.decode("utf-8", "replace").strip()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._kept = (self._kept + os.read(self._read_end, 65_536))[:KEPT_BYTES]


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program that still runs, with all that it started; what one that is done left behind may go on."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

"""Healthy when a program that the operator named ends with 0. Manifests can only name one of REACH_PROBE_COMMANDS."""

import asyncio
import contextlib
import os
import signal

from django.conf import settings

from common.outbound import Outbound
from registry.probes.base import CannotProbe, Target
from registry.probes.body import PREFIX

KEPT_BYTES = 4096
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")  # the platform's own environment holds secrets


async def probe(target: Target, out: Outbound) -> str:
    """Run the program without a shell; it finds the instance's address in REACH_PROBE_URL."""
    argv = settings.REACH_PROBE_COMMANDS.get(target.command)
    if argv is None:
        raise CannotProbe(f"there is no command {target.command!r} in REACH_PROBE_COMMANDS")
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**environment, "REACH_PROBE_URL": target.url},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise CannotProbe(f"the command {target.command!r} does not start: {error.strerror}") from None
    try:
        output = await _read(process.stdout) if process.stdout else b""
        code = await process.wait()
    finally:
        await _end(process)
    return _wrong(code, output.decode("utf-8", "replace").strip(), target.expect.get("notPrefix", PREFIX))


def _wrong(code: int, output: str, prefix: str) -> str:
    if code != 0:
        return f"exit status {code}: {output[:200]}"
    return f"the output begins with {prefix}: {output[:100]}" if prefix and output.startswith(prefix) else ""


async def _read(stream: asyncio.StreamReader) -> bytes:
    """The beginning of the output; the rest is read too, so that the program does not wait for a reader."""
    kept = b""
    while part := await stream.read(65_536):
        kept = (kept + part)[:KEPT_BYTES]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()

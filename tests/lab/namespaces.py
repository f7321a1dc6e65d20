"""Two ends of a cable that can be pulled: a network namespace with a virtual pair, shaped by netem where there is one.

Needs root and iproute2. Everything made here goes away with the context manager.
"""

import os
import shutil
import subprocess
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

HERE, THERE = "10.213.87.1", "10.213.87.2"
_NEEDED = "network namespaces need root and iproute2"


def _ip(*words: str, check: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True, timeout=10)  # noqa: S607 - wherever iproute2 is


def why_not() -> str:
    """What keeps this machine from making network namespaces; empty if nothing does."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return _NEEDED
    name = f"reach-{uuid.uuid4().hex[:8]}"
    made = _ip("netns", "add", name, check=False)
    _ip("netns", "del", name, check=False)
    return made.stderr.strip()


@dataclass
class Cable:
    """One end here at HERE, the other in a namespace of its own at THERE."""

    namespace: str
    device: str

    def pull(self) -> None:
        """Nothing passes; neither side is told."""
        _ip("-n", self.namespace, "link", "set", "far", "down")

    def plug(self) -> None:
        _ip("-n", self.namespace, "link", "set", "far", "up")

    def shape(self, *netem: str) -> None:
        """Delay or loss, as in `tc`: shape("delay", "100ms", "loss", "5%"). Skips the test where the kernel cannot."""
        if shutil.which("tc") is None:
            pytest.skip("there is no tc")
        command = ["tc", "qdisc", "replace", "dev", self.device, "root", "netem", *netem]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        if done.returncode != 0:
            pytest.skip(f"this kernel has no netem: {done.stderr.strip()}")

    def run(self, *command: str) -> subprocess.Popen:
        """Start a Python program at the far end."""
        return subprocess.Popen(["ip", "netns", "exec", self.namespace, sys.executable, *command])  # noqa: S607 - as above


@contextmanager
def cable():
    """A plugged cable; skips the test where there can be none."""
    if reason := why_not():
        pytest.skip(reason)
    name = f"reach-{uuid.uuid4().hex[:8]}"
    device = f"rv{name[-8:]}"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", device, "type", "veth", "peer", "name", "far", "netns", name)
        _ip("addr", "add", f"{HERE}/30", "dev", device)
        _ip("link", "set", device, "up")
        _ip("-n", name, "addr", "add", f"{THERE}/30", "dev", "far")
        _ip("-n", name, "link", "set", "far", "up")
        yield Cable(name, device)
    finally:
        _ip("link", "del", device, check=False)
        _ip("netns", "del", name, check=False)

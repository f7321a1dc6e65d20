"""Probes over a real cable: cut, slow, lossy."""

import asyncio
import ipaddress
import time

import pytest

from common.outbound import Outbound
from registry.probes import Target, run
from tests.lab.namespaces import THERE, cable

PORT = "8099"
URL = f"http://{THERE}:{PORT}/"
SERVER = ("-m", "http.server", PORT, "--bind", THERE, "--directory", "/proc/self/fd")


def probed(timeout_s=2.0):
    async def trip():
        out = Outbound([ipaddress.ip_network("10.213.87.0/30")])
        try:
            return await run(Target("http", URL, timeout_s), out)
        finally:
            await out.close()

    return asyncio.run(trip())


@pytest.fixture
def wire():
    """A cable with a web server at its far end."""
    with cable() as one:
        server = one.run(*SERVER)
        try:
            end = time.monotonic() + 10
            while not probed().ok:
                assert time.monotonic() < end, probed().reason
                time.sleep(0.05)
            yield one
        finally:
            server.kill()
            server.wait(5)


def test_a_pulled_cable_is_noticed_within_the_connect_limit_and_a_plugged_one_at_once(wire):
    wire.pull()
    began = time.monotonic()
    result = probed(timeout_s=5.0)
    assert (result.ok, time.monotonic() - began < 1.5) == (False, True), result
    wire.plug()
    assert probed().ok


def test_a_delayed_answer_is_healthy_and_shows_its_delay(wire):
    wire.shape("delay", "150ms")
    result = probed()
    assert result.ok
    assert result.ms >= 300


def test_a_fifth_of_the_packets_lost_does_not_fail_a_probe(wire):
    wire.shape("loss", "20%")
    assert sum(bool(probed(timeout_s=5.0).ok) for _ in range(5)) >= 4

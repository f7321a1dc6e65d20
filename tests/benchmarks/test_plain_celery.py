"""The bench's short version: one turn of the plain app on servers of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.measure import Plan, turn
from benchmarks.peers import Agent, Peer, Receiver
from benchmarks.systems import PlainCelery


@pytest.fixture
def peers() -> Iterator[tuple[Peer, Peer]]:
    agent, receiver = Peer.start(Agent, 0.02), Peer.start(Receiver)
    yield agent, receiver
    agent.stop()
    receiver.stop()


@pytest.mark.trip
@pytest.mark.slow
def test_the_plain_app_makes_the_whole_trip(peers: tuple[Peer, Peer], tmp_path: Path) -> None:
    agent, receiver = peers
    system = PlainCelery("plain celery", tmp_path, {})
    figures = turn(system, agent, receiver, Plan(accept=0.5, complete=5.0, latency=1.0))
    assert figures["lost"] == 0
    assert figures["completed/s"] > 0
    assert figures["accepted/s"] > 0
    assert all(figures[f"CPU ms/task {name}"] > 0 for name in ("gunicorn", "worker", "postgres"))

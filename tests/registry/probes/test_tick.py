"""The whole way of a round, with committed rows: due, probed over the network, kept."""

import asyncio
import threading
import uuid
from datetime import timedelta

import pytest

from common.clock import now
from registry.models import Agent, Instance, Namespace
from registry.services import evidence, probing
from tests.committed import database, database_made  # noqa: F401 - fixtures
from tests.registry.probes.probing import answer, serving


@pytest.fixture
def health():
    """The address of a server that is well, on a thread of its own."""
    started, stop, found = threading.Event(), threading.Event(), []

    async def serve():
        async with serving(lambda _: answer('{"status": "ok"}')) as url:
            found.append(url)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(5)
    yield found[0]
    stop.set()
    thread.join()


@pytest.fixture
def three(database, health):  # noqa: F811
    namespace = Namespace.objects.create(name=f"t-{uuid.uuid4().hex[:12]}")
    agent = Agent.objects.create(namespace=namespace, agent_id="a1", manifest={"spec": {"capabilities": []}})
    past = now() - timedelta(minutes=30)
    common = {"agent": agent, "state_since": past, "registered_at": past, "probe_due_at": past, "health_url": health}
    rows = [Instance.objects.create(instance_id=f"i{n}", **common) for n in range(3)]
    yield rows
    probing.stop()
    agent.delete()
    namespace.delete()


def test_a_tick_probes_what_is_due_and_a_backlog_is_one_round(three):
    at = now()
    probing.tick(at)
    assert probing.running_prober().idle(10)
    for row in three:
        row.refresh_from_db()
        assert (row.probe_successes, row.probe_claimed_at, row.probe_reason) == (1, None, "")
        assert row.probe_due_at > at
    kept = evidence.read([row.pk for row in three])
    assert all([probe.ok for probe in one.probes] == [True] for one in kept.values())

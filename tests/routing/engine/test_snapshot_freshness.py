"""A change in the registry reaches the running engine within a second or so, whichever way it hears of it."""

import time

from routing import snapshot
from tests.routing.engine.local import wait_until


def test_a_change_is_seen_within_about_a_second(town):
    assert snapshot.current(town.namespace).agents["worker"].instances[0].state == "ONLINE"
    began = time.monotonic()
    town.change(town.instance(), state="OFFLINE")
    wait_until(lambda: snapshot.current(town.namespace).agents["worker"].instances[0].state == "OFFLINE", 3)
    assert time.monotonic() - began < 2


def test_a_claim_that_saw_a_newer_version_decides_on_that(engine, town):
    snapshot.current(town.namespace)
    other = town.serve()
    town.point_to(other.url)
    task_id = town.submit()
    engine.claim([task_id])
    town.ended(task_id)
    assert (len(town.agent.received), len(other.received)) == (0, 1)

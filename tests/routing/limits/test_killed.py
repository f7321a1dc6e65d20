"""A process that is killed while it holds slots, by `kill -9`."""

import os
import subprocess
import sys
import time
import uuid

import pytest

from routing.limits import slots
from routing.limits.slots import Slot
from tests.routing.engine.local import wait_until

pytestmark = pytest.mark.chaos

PLACE, ECHO = ("n", "a", "i1"), ("n", "echo")
HOLDER = """
import time, uuid, django
django.setup()
from routing.engine.leases import Leases
from routing.limits import slots
from routing.loads import Loads

leases = Leases(Loads(), slots.begin_epoch)
held = [slots.Slot(uuid.uuid4().hex, ("n", "a", "i1"), ("n", "echo"), 100) for _ in range(100)]
assert leases.take(held) == [""] * 100
print("held", flush=True)
while True:
    leases.tick()
    time.sleep(0.2)
"""


@pytest.fixture
def holder(settings):
    env = {**os.environ, "REACH_REDIS_PREFIX": settings.REACH_REDIS_PREFIX}
    process = subprocess.Popen([sys.executable, "-c", HOLDER], env=env, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()


def earliest_end():
    return min(slots.everything()[slots.key_of(PLACE)].values())


def wanted(count):
    return [Slot(uuid.uuid4().hex, PLACE, ECHO, 100) for _ in range(count)]


@pytest.mark.slow
def test_a_hundred_slots_are_renewed_while_their_process_lives_and_back_fifteen_seconds_after_its_death(holder):
    first = earliest_end()
    wait_until(lambda: earliest_end() > first, 10)
    assert slots.take(wanted(1)).refused == ["BUSY"]
    holder.kill()
    began = time.monotonic()
    wait_until(lambda: slots.count([PLACE])[PLACE] == 0, 20)
    assert slots.take(wanted(100)).refused == [""] * 100
    assert 5 < time.monotonic() - began < 15.5

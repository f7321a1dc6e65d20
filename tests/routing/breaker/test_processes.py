"""Half-open circuits over real processes, and over their restart."""

import os
import subprocess
import sys
import time
import uuid

from common import redis
from routing.breaker import Key
from routing.breaker.rule import Figures, Result
from tests.routing.engine.local import wait_until

# Reports that it is ready, tries as soon as it may to be let through 10 times, and says how often it was.
PROCESS = """
import os, time, uuid
os.environ["DJANGO_SETTINGS_MODULE"] = "reach_platform.settings"
import django
django.setup()
from common import redis
from routing import breaker
key = breaker.Key("n", "agent", "i1")
view = breaker.view().started()
assert key in view.open("n"), "it does not know what is open"
redis.call(lambda client: client.incr(redis.key("ready")))
while not redis.call(lambda client: client.exists(redis.key("go"))):
    time.sleep(0.002)
now = time.time()
print(sum(view.admit([key], uuid.uuid4(), now, now + 60) for _ in range(10)), flush=True)
"""
INSTANCE = Key("n", "agent", "i1")


def started(prefix):
    env = {**os.environ, "REACH_REDIS_PREFIX": prefix}
    return subprocess.Popen([sys.executable, "-c", PROCESS], env=env, stdout=subprocess.PIPE, text=True)


def test_one_trial_over_four_processes_that_started_after_the_opening(process, settings):
    now, one = time.time(), process()
    for task in (1, 2, 3):
        one.note([INSTANCE], Result(task, False, now, now), Figures(open_s=0.01))
    wait_until(lambda: INSTANCE in process().started().open("n"))
    others = [started(settings.REACH_REDIS_PREFIX) for _ in range(4)]
    try:
        wait_until(lambda: redis.call(lambda client: client.get(redis.key("ready"))) == b"4", 180)
        redis.call(lambda client: client.set(redis.key("go"), 1))
        assert sum(int(other.communicate(timeout=120)[0]) for other in others) == 1
    finally:
        for other in others:
            other.kill()
    assert not one.admit([INSTANCE], uuid.uuid4(), time.time(), time.time() + 60)

"""A worker that dies with a task on trial keeps nobody else from trying."""

import time
import uuid

import pytest

from common import clock
from routing import breaker
from routing.breaker.rule import Figures, Result
from routing.services import workers
from routing.services.sweep import sweep
from tests.routing.services.test_ends import lapse
from tests.routing.services.world import World

HALF_OPEN = Figures(open_s=0.0)


@pytest.fixture(autouse=True)
def _own_redis(settings, monkeypatch):
    monkeypatch.setattr(workers, "RESTART_GRACE_S", 0)
    monkeypatch.setattr(workers, "STEADY_S", 0)
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    breaker.view().close()
    yield
    breaker.view().close()


def admitted(key: breaker.Key, task_id: uuid.UUID) -> bool:
    return breaker.view().admit([key], task_id, time.time(), time.time() + 3600)


def test_the_sweep_gives_back_the_trial_of_a_dead_worker(world: World) -> None:
    key = breaker.Key(world.namespace, "worker", "i1", "echo", "shop")
    for task in (1, 2, 3):
        breaker.view().note([key], Result(task, False, time.time(), time.time(), "shop"), HALF_OPEN)
    breaker.view().flush()
    held = world.claim(world.accept().task_id)
    assert admitted(key, held.task_id)
    world.send(held)
    assert not admitted(key, uuid.uuid4())
    lapse(world.boot)
    sweep(clock.now())
    breaker.view().flush()
    assert admitted(key, uuid.uuid4())

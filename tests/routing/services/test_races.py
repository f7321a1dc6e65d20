"""Two at once: the first final state wins, and nobody does anything twice."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection

from common import clock
from common.errors import StateConflict
from routing.services import sweep
from routing.services.cancel import cancel
from routing.services.claim import claim
from tests.routing.services.test_ends import CALLBACK, HOUR
from tests.routing.services.world import World, callbacks_of, events, rows, task


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call gives or raises, all begun at the same moment."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait()
            return call()
        except StateConflict as conflict:
            return conflict
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_a_cancel_and_a_success_leave_one_end_and_one_callback(world: World) -> None:
    ends = set()
    for _ in range(100):
        sent = world.running(callback=CALLBACK)
        conflict, settled = at_once(
            partial(cancel, sent.task.task_id, "shop", clock.now()), partial(world.settle, sent)
        )
        state = task(sent.task.task_id)["state"]
        ends.add(state)
        assert settled.applied == (state == "SUCCEEDED") == isinstance(conflict, StateConflict)
        assert len(callbacks_of(sent.task.task_id)) == 1
        assert [name for name in events(sent.task.task_id) if name in ("CANCELLED", "SUCCEEDED")] == [state]
    assert ends


def test_two_claims_of_the_same_ids_share_them(world: World) -> None:
    ids = [world.accept().task_id for _ in range(40)]
    boots = [uuid.uuid4(), uuid.uuid4()]
    first, second = at_once(*(lambda b=boot: claim(ids, b, 40, clock.now()) for boot in boots))
    taken = [one.task_id for one in first + second]
    assert sorted(taken) == sorted(ids)


@pytest.mark.parametrize("number", range(5))
def test_two_sweeps_at_once_end_each_task_once(world: World, number: int) -> None:
    ids = [world.accept(callback=CALLBACK, ttlMs=1000).task_id for _ in range(20)]
    later = clock.now() + HOUR
    at_once(lambda: sweep.sweep(later), lambda: sweep.sweep(later), lambda: sweep.expire(ids[0], later))
    assert {task(one)["state"] for one in ids} == {"TIMEOUT"}
    assert [len(callbacks_of(one)) for one in ids] == [1] * 20
    counted = rows("SELECT count(*) FROM routing_event WHERE event = 'TIMEOUT' AND task_id = ANY(%s)", ids)
    assert counted == [{"count": 20}]

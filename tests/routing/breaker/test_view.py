"""What several processes know of a circuit, with Redis and without."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from common import redis
from routing.breaker import Key, shared
from routing.breaker.rule import ANYBODY, Figures, Result
from tests.routing.engine.local import wait_until

SHOP = Key("n", "agent", "i1", "echo", "shop")
INSTANCE = Key("n", "agent", "i1")
QUICK = Figures(open_s=0.05)


def result(ok=False, task=None, whose="shop", at=None):
    at = at or time.time()
    return Result(task or uuid.uuid4().int & 0xFFFFFFFF, ok, at, at, whose)


def fail(view, times=3, figures=QUICK, **given):
    for _ in range(times):
        view.note([INSTANCE, SHOP], result(**given), figures)


def opened(process, figures=QUICK):
    """Two processes that know that the client's circuit is open, its cool-down over."""
    one, other = process(), process()
    fail(one, figures=figures)
    wait_until(lambda: SHOP in other.open("n"))
    wait_until(lambda: time.time() > other.open("n")[SHOP].until)
    return one, other


def admitted(view, task_id=None, lease_s=30.0):
    return view.admit([SHOP], task_id or uuid.uuid4(), time.time(), time.time() + lease_s)


@pytest.fixture
def redis_away(monkeypatch):
    """redis_away(True) and redis_away(False)."""
    reach = redis.call
    away = False

    def call(work):
        if away:
            raise redis.RedisAway
        return reach(work)

    def switch(on):
        nonlocal away
        away = on

    monkeypatch.setattr(redis, "call", call)
    return switch


def test_failures_of_one_client_open_its_circuit_and_not_the_instances(process):
    view = process()
    fail(view, 10)
    assert list(view.open("n")) == [SHOP]


def test_failures_that_never_reached_the_agent_open_the_instances_circuit(process):
    view = process()
    fail(view, whose=ANYBODY)
    assert set(view.open("n")) == {INSTANCE, SHOP}


def test_failures_in_several_processes_add_up(process):
    views = [process() for _ in range(3)]
    for view in views:
        fail(view, 1)
    wait_until(lambda: all(SHOP in view.open("n") for view in views))


def test_a_process_that_starts_later_knows_what_is_open(process):
    opened(process)
    assert SHOP in process().started().open("n")


def test_one_trial_at_a_time_over_all_processes(process):
    views = [*opened(process), process().started(), process().started()]
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda n: admitted(views[n % 4]), range(40)))
    assert sum(got) == 1


def test_a_trial_is_not_lost_with_the_answer_to_its_taking(process, monkeypatch):
    one, other = opened(process)
    swap, task_id = shared.swap, uuid.uuid4()

    def unanswered(groups):
        monkeypatch.setattr(shared, "swap", swap)
        swap(groups)
        one.refresh(time.time())  # the other thread may see it first
        raise redis.RedisAway

    monkeypatch.setattr(shared, "swap", unanswered)
    assert admitted(one, task_id)
    assert (admitted(one, task_id), admitted(one), admitted(other)) == (True, False, False)


def test_an_opening_whose_listing_got_lost_is_listed_later(process, monkeypatch):
    lost, list_open = [], shared.list_open

    def unanswered(opened, closed):
        if opened and not lost:
            lost.append(opened)
            raise redis.RedisAway
        list_open(opened, closed)

    monkeypatch.setattr(shared, "list_open", unanswered)
    fail(process(), figures=Figures(open_s=60.0))
    wait_until(lambda: SHOP in process().started().open("n"))
    assert lost


def test_the_trial_s_success_closes_it_everywhere(process):
    one, other = opened(process)
    task = uuid.uuid4()
    assert admitted(one, task)
    other.note([SHOP], result(True, task.int & (1 << 48) - 1), QUICK)  # its result was reported elsewhere
    wait_until(lambda: not one.open("n") and not other.open("n"))


def test_an_abandoned_trial_s_lease_expires(process):
    one, other = opened(process)
    assert admitted(one, lease_s=0.1)
    assert not admitted(other)
    wait_until(lambda: admitted(other))


def test_without_redis_each_process_goes_by_what_it_sees(process, redis_away):
    redis_away(True)
    one, other = process(), process()
    fail(one)
    wait_until(lambda: time.time() > one.open("n")[SHOP].until)
    assert admitted(one)
    assert not admitted(one)
    assert not other.open("n")


def test_what_was_seen_while_redis_was_away_counts_when_it_is_back(process, redis_away):
    one, other = process(), process()
    redis_away(True)
    fail(one, 2)
    fail(other, 1)
    redis_away(False)
    wait_until(lambda: SHOP in one.open("n") and SHOP in other.open("n"))


def test_a_redis_that_came_back_empty_is_told_what_is_open(process):
    fail(process(), figures=Figures())
    wait_until(lambda: SHOP in process().started().open("n"))
    redis.call(lambda client: client.delete(*client.keys(redis.key("cb*"))))
    wait_until(lambda: SHOP in process().started().open("n"))


def test_all_that_is_open_is_known_at_once_to_a_process_that_just_began(process):
    fail(process(), figures=Figures())
    wait_until(lambda: SHOP in process().all_open(time.time()))


def test_what_is_open_is_not_guessed_at_while_redis_is_away(process, redis_away):
    one = process()
    redis_away(True)
    with pytest.raises(redis.RedisAway):
        one.all_open(time.time())

"""How many retries an ability's traffic allows."""

import time
import uuid
from types import SimpleNamespace

import pytest

from common import redis
from routing.breaker.budget import FULL, next_at, spent
from routing.breaker.retries import RetryBudgets


def send(namespace="n", ability="echo", state="RECEIVED", attempts=0, fallback=None):
    task = SimpleNamespace(
        namespace=namespace, serving=ability, state=state, attempts=attempts, fallback=fallback, task_id=uuid.uuid4()
    )
    return SimpleNamespace(task=task)


RETRY = {"state": "RETRY_WAIT", "attempts": 1}


def granted(budget, seconds, wanted=1000, sends=0, each=0.1):
    """How many of very many retries are granted over some seconds, with so many first sends a step."""
    total = 0
    for step in range(round(seconds / each)):
        budget, some = spent(budget, sends, wanted, 100.0 + step * each)
        total += some
    return total


def test_ten_a_second_are_always_allowed():
    assert 10 * 20 <= granted(FULL, 20) <= 10 * 20 + 10


def test_a_fifth_of_the_traffic_is_allowed_where_that_is_more():
    total = granted(FULL, 60, sends=100)  # 1,000 a second
    assert 0.17 * 60_000 <= total <= 0.2 * 60_000


def test_traffic_of_long_ago_does_not_count():
    budget, _ = spent(FULL, 100_000, 0, 100.0)
    assert spent(budget, 0, 1000, 109.0)[1] > 500
    assert spent(budget, 0, 1000, 120.0)[1] <= 10


def test_what_is_used_up_says_when_there_is_more():
    budget, count = spent(FULL, 0, 1000, 100.0)
    assert (count, spent(budget, 0, 1, 100.0)[1]) == (10, 0)
    assert spent(budget, 0, 1, next_at(budget, 100.0) + 0.001)[1] == 1


def test_processes_share_a_budget():
    processes = [RetryBudgets() for _ in range(4)]
    now = time.time()
    refused = [over for one in processes for over in one.over([send(**RETRY)] * 10, now)]
    assert refused.count(False) == 10


def test_first_sends_of_all_processes_count():
    one, other = RetryBudgets(), RetryBudgets()
    now = time.time()
    one.over([send()] * 1000, now)
    assert other.over([send(**RETRY)] * 30, now).count(False) == 20  # a second's worth, and not more
    assert other.over([send(**RETRY)] * 30, now + 1).count(False) == 20


def test_abilities_have_budgets_of_their_own():
    view, now = RetryBudgets(), time.time()
    assert view.over([send(**RETRY)] * 11, now).count(True) == 1
    assert not any(view.over([send(ability="other", **RETRY)] * 10, now))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"state": "RECEIVED", "attempts": 2},
        {"state": "RETRY_WAIT", "attempts": 3, "fallback": {"since": 3, "ability": "x"}},
    ],
)
def test_first_sends_a_persons_retries_and_substitutes_are_no_retries(given):
    assert not any(RetryBudgets().over([send(**given)] * 50, time.time()))


def test_without_redis_each_process_keeps_to_its_own(monkeypatch):
    def away(_):
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", away)
    view, now = RetryBudgets(), time.time()
    assert view.over([send(**RETRY)] * 30, now).count(False) == 10
    assert view.over([send(**RETRY)] * 30, now + 0.5).count(False) == 5

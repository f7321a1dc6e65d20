"""Token buckets, in Redis and, while it is away, in this process."""

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as searching
from hypothesis import strategies as some

from common import redis
from routing.limits import buckets
from routing.limits.buckets import Bucket, Local, bucket, give_back, take


def a_bucket(rate: float = 0.01, burst: int = 3, name: str = "a") -> Bucket:
    found = bucket(name, {"ratePerSecond": rate, "burst": burst}, name)
    assert found is not None
    return found


def passed(answers: list[Any]) -> list[bool]:
    return [one is None for one in answers]


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    def call(work: Any) -> Any:
        raise redis.RedisAway

    monkeypatch.setattr(redis, "call", call)
    monkeypatch.setattr(buckets, "_local", Local())
    settings.REACH_WEB_WORKERS = 2


def test_no_more_than_the_burst_goes_through_at_once():
    one = a_bucket(burst=3)
    assert passed(take([[one]] * 5)) == [True, True, True, False, False]
    assert passed(take([[one]])) == [False]


def test_the_refused_of_one_call_are_told_one_after_the_other():
    one = a_bucket(rate=0.1, burst=1)
    waits = [short.wait_s for short in take([[one]] * 4) if short]
    assert waits == pytest.approx([10, 20, 30], abs=0.2)


def test_who_waits_as_told_gets_through():
    one = a_bucket(rate=20, burst=1)
    take([[one]])
    [short] = take([[one]])
    assert short is not None
    time.sleep(short.wait_s)
    assert take([[one]]) == [None]


def test_an_item_takes_of_all_its_buckets_or_of_none():
    mine, shared = a_bucket(name="mine", burst=2), a_bucket(name="shared", burst=1)
    assert [short and short.bucket.name for short in take([[mine, shared]] * 2)] == [None, "shared"]
    assert passed(take([[mine], [mine]])) == [True, False]


def test_what_is_given_back_can_be_taken_again():
    one = a_bucket(burst=3)
    take([[one]] * 3)
    give_back([[one]] * 2)
    assert passed(take([[one]] * 3)) == [True, True, False]


def test_more_given_back_than_taken_is_a_full_bucket():
    one = a_bucket(burst=2)
    take([[one]])
    give_back([[one]] * 9)
    assert passed(take([[one]] * 3)) == [True, True, False]


def test_a_bucket_expires_when_it_is_full():
    one = a_bucket(rate=1, burst=5)
    take([[one]] * 3)
    assert 2_000 < redis.call(lambda client: client.pttl(one.key)) <= 3_001


def test_a_smaller_burst_counts_at_once():
    take([[a_bucket(rate=0.001, burst=1000)]] * 1000)
    [short] = take([[a_bucket(rate=1, burst=1)]])
    assert short is not None
    assert short.wait_s <= 1


def test_without_limits_there_is_no_round_trip(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redis, "call", None)
    assert bucket("a", {"burst": 5}, "a") is None
    assert take([[], []]) == [None, None]
    give_back([[], []])


def test_all_buckets_of_a_batch_take_one_round_trip(monkeypatch: pytest.MonkeyPatch):
    take([[a_bucket()]])
    calls, call = [], redis.call

    def counted(work):
        calls.append(work)
        return call(work)

    monkeypatch.setattr(redis, "call", counted)
    take([[a_bucket(name=f"b{number}"), a_bucket(name="shared")] for number in range(50)])
    assert len(calls) == 1


@pytest.mark.usefixtures("away")
def test_without_redis_each_process_grants_its_part_of_the_rate():
    one = a_bucket(rate=2, burst=4)
    answers = take([[one]] * 3)
    assert passed(answers) == [True, True, False]
    assert answers[2].wait_s == pytest.approx(1, abs=0.1)
    give_back([[one]])
    assert passed(take([[one]] * 2)) == [True, False]


RATES = some.sampled_from([0.5, 1.0, 7.0])
STEPS = some.lists(
    some.tuples(some.floats(0, 3), some.lists(some.sampled_from([(0,), (1,), (0, 1)]), max_size=6)), max_size=10
)
PATIENT = searching(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@PATIENT
@given(RATES, some.integers(1, 5), STEPS)
def test_never_more_than_burst_plus_rate_times_time(rate: float, burst: int, steps: list[Any]):
    both, local = [a_bucket(rate, burst, "a"), a_bucket(rate * 2, burst, "b")], Local()
    began = now = 1000.0
    taken = [0, 0]
    for pause, items in steps:
        now += pause
        answers = local.take([[both[n] for n in item] for item in items], 1, now)
        for item, answer in zip(items, answers, strict=True):
            for n in item if answer is None else ():
                taken[n] += 1
    assert all(count <= burst + one.rate * (now - began) + 1e-3 for count, one in zip(taken, both, strict=True))


@PATIENT
@given(RATES, some.integers(1, 5), some.lists(some.sampled_from([(0,), (1,), (0, 1)]), max_size=20))
def test_the_script_and_the_process_grant_the_same(rate: float, burst: int, items: list[tuple[int, ...]]):
    redis.call(lambda client: client.delete(redis.key("bucket", "a"), redis.key("bucket", "b")))
    both = [a_bucket(rate / 1000, burst, "a"), a_bucket(rate / 370, burst, "b")]  # waits that are never equal
    wants = [[both[n] for n in item] for item in items]
    here = Local().take(wants, 1, time.monotonic())
    for ours, shared in zip(here, take(wants), strict=True):
        assert (ours and ours.bucket) == (shared and shared.bucket)
        assert (ours.wait_s if ours else 0) == pytest.approx(shared.wait_s if shared else 0, abs=1)

"""The scripts, on a real Redis."""

import threading
import uuid

import pytest

from common import redis
from routing.limits import slots
from routing.limits.slots import Slot

I1, I2, ECHO = ("n", "a", "i1"), ("n", "a", "i2"), ("n", "echo")


@pytest.fixture(autouse=True)
def _epoch(_own_redis):
    slots.begin_epoch()


def slot(instance=I1, most=2, ability=ECHO, ability_most=None):
    return Slot(uuid.uuid4().hex, instance, ability, most, ability_most)


def test_a_batch_is_granted_up_to_each_instances_limit():
    taken = slots.take([slot(I1), slot(I1), slot(I1), slot(I2), slot(I1, most=None)])
    assert taken.refused == ["", "", "BUSY", "", ""]
    assert taken.counts == {I1: 3, I2: 1, ECHO: 4}


def test_the_abilitys_limit_is_over_all_its_instances():
    taken = slots.take([slot(I1, ability_most=2), slot(I2, ability_most=2), slot(I2, ability_most=2)])
    assert taken.refused == ["", "", "ABILITY_BUSY"]
    assert slots.count([ECHO]) == {ECHO: 2}


def test_what_ended_makes_room_in_the_same_step():
    first, second = slot(most=1), slot(most=1)
    slots.take([first])
    assert slots.take([second]).refused == ["BUSY"]
    assert slots.take([second], ended=[first]).refused == [""]
    assert slots.count([I1]) == {I1: 1}


def test_a_slot_comes_back_when_its_lease_ends():
    slots.take([slot(most=1)], now=1_000, ms=15_000)
    assert slots.take([slot(most=1)], now=15_999).refused == ["BUSY"]
    assert slots.take([slot(most=1)], now=16_000).refused == [""]


def test_a_renewed_lease_runs_on_and_never_gets_shorter():
    mine = slot(most=1)
    slots.take([mine], now=0)
    slots.hold([(mine, 100_000)], now=0)
    slots.hold([(mine, 15_000)], now=10_000)
    assert slots.count([I1], now=99_999) == {I1: 1}
    assert slots.count([I1, ECHO], now=100_000) == {I1: 0, ECHO: 0}


def test_holding_puts_back_what_redis_lost():
    mine = slot(most=1)
    assert slots.hold([(mine, 15_000)]) == {I1: 1, ECHO: 1}
    assert slots.take([slot(most=1)]).refused == ["BUSY"]


def test_an_end_may_come_twice_or_for_nothing():
    mine = slot()
    slots.take([mine])
    slots.end([mine, slot()])
    slots.end([mine])
    assert slots.count([I1, ECHO]) == {I1: 0, ECHO: 0}


def test_an_empty_redis_grants_nothing_before_it_is_mended():
    redis.call(lambda client: client.delete(slots.epoch_key()))
    assert slots.take([slot()]) is None
    assert slots.everything() == {}


def test_names_with_separators_are_kept_apart():
    taken = slots.take([slot(("n", "a", "b|c"), most=1), slot(("n", "a:b", "c"), most=1)])
    assert taken.refused == ["", ""]


def test_concurrent_batches_never_exceed_a_limit():
    granted = []

    def use():
        granted.extend(slots.take([slot(most=50) for _ in range(20)]).refused)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert granted.count("") == 50

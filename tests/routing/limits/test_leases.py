"""Several processes' leases on one Redis, and a model of what they may do."""

import uuid

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from common import redis
from routing.engine.leases import Leases
from routing.limits import slots
from routing.limits.slots import LEASE_MS, Slot
from routing.loads import Loads

I1, ECHO = ("n", "a", "i1"), ("n", "echo")
HOUR_MS = 3_600_000


def slot(most=2, ability_most=None, instance=I1):
    return Slot(uuid.uuid4().hex, instance, ECHO, most, ability_most)


class Process:
    """One process's share: what it counts itself, and its leases."""

    def __init__(self, mend=slots.begin_epoch):
        self.loads = Loads()
        self.leases = Leases(self.loads, mend)

    def take(self, *asked):
        refused = self.leases.take(asked)
        self.loads.hear()
        for one, why in zip(asked, refused, strict=True):
            if not why:
                self.loads.acquire(one.places)
        return refused

    def finish(self, one):
        self.leases.finish(one)
        self.loads.release(one.places)

    def seen(self):
        self.loads.hear()
        return self.loads.inflight(I1)


@pytest.fixture
def away(monkeypatch):
    """away(True) takes Redis away, away(False) brings it back."""
    call = redis.call

    def gone(_):
        raise redis.RedisAway

    return lambda is_away: monkeypatch.setattr(redis, "call", gone if is_away else call)


def test_a_process_sees_what_the_others_have_in_flight():
    here, there = Process(), Process()
    there.take(slot(most=9), slot(most=9))
    here.take(slot(most=9))
    assert (here.seen(), here.loads.own(I1)) == (3, 1)
    there.leases.refresh([I1])
    assert there.seen() == 3


def test_what_ended_goes_out_with_the_next_batch():
    here, mine = Process(), slot(most=1)
    here.take(mine)
    here.finish(mine)
    assert slots.count([I1]) == {I1: 1}
    assert here.take(slot(most=1)) == [""]
    assert (slots.count([I1]), here.seen()) == ({I1: 1}, 1)


def test_a_renewal_never_brings_back_what_ended():
    here, mine = Process(), slot()
    here.take(mine)
    here.finish(mine)
    here.leases._renew()
    here.leases.flush()
    here.leases._renew()
    assert slots.count([I1]) == {I1: 0}


def test_a_kept_slot_is_the_others_and_ends_with_whoever_ends_the_attempt():
    here, mine = Process(), slot(most=1)
    here.take(mine)
    here.leases.keep([(mine, HOUR_MS)])
    here.finish(mine)
    here.leases.flush()
    assert (here.seen(), here.take(slot(most=1))) == (1, ["BUSY"])
    slots.end_soon([mine])
    assert here.take(slot(most=1)) == [""]


def test_without_redis_everything_is_granted_and_afterwards_everything_is_there_again(away):
    here, before, meanwhile = Process(), slot(), slot()
    here.take(before)
    away(True)
    assert here.take(meanwhile) == [""]
    away(False)
    redis.call(lambda client: client.delete(*client.scan_iter(redis.key("slots", "*"))))
    here.leases.tick()
    assert slots.count([I1, ECHO]) == {I1: 2, ECHO: 2}
    assert Process().take(slot()) == ["BUSY"]


def test_while_redis_is_away_nobody_believes_old_counts(away):
    here, there = Process(), Process()
    there.take(slot(most=9), slot(most=9))
    here.take(slot(most=9))
    away(True)
    here.take(slot(most=9))
    assert here.seen() == here.loads.own(I1) == 2


def test_an_end_that_redis_did_not_hear_goes_out_with_the_next_one(away):
    first, second = slot(), slot()
    Process().take(first, second)
    away(True)
    slots.end_soon([first])
    away(False)
    slots.end_soon([second])
    assert slots.count([I1]) == {I1: 0}


def test_an_empty_redis_is_mended_before_anything_is_granted():
    other = slot(most=1)

    def mend():
        slots.hold([(other, LEASE_MS)])
        slots.begin_epoch()

    assert Process(mend).take(slot(most=1)) == ["BUSY"]


class Shared(RuleBasedStateMachine):
    """Three processes, one instance with 4 slots and an ability with 6: never more, and nothing left over at the end."""

    MOST, ABILITY_MOST = 4, 6

    @initialize()
    def begin(self):
        redis.call(lambda client: [client.delete(key) for key in client.scan_iter(redis.key("slots", "*"))])
        slots.begin_epoch()
        self.processes = [Process() for _ in range(3)]
        self.running = [{} for _ in range(3)]  # attempt → slot, of each process
        self.kept, self.dead = {}, {}  # 202s; slots of killed processes

    @rule(who=st.integers(0, 2), bound=st.integers(1, 5), other=st.booleans())
    def take(self, who, bound, other):
        instance = ("n", "a", "i2") if other else I1
        asked = [slot(self.MOST, self.ABILITY_MOST, instance) for _ in range(bound)]
        for one, why in zip(asked, self.processes[who].take(*asked), strict=True):
            if not why:
                self.running[who][one.attempt] = one

    @rule(who=st.integers(0, 2), flush=st.booleans())
    def finish_one(self, who, flush):
        if self.running[who]:
            self.processes[who].finish(self.running[who].popitem()[1])
        if flush:
            self.processes[who].leases.flush()

    @rule(who=st.integers(0, 2))
    def accept_one(self, who):
        if self.running[who]:
            attempt, one = self.running[who].popitem()
            self.processes[who].leases.keep([(one, HOUR_MS)])
            self.processes[who].finish(one)
            self.kept[attempt] = one

    @precondition(lambda self: self.kept)
    @rule()
    def report_one(self):
        slots.end_soon([self.kept.popitem()[1]])

    @rule(who=st.integers(0, 2))
    def renew(self, who):
        self.processes[who].leases._renew()

    @rule(who=st.integers(0, 2))
    def kill(self, who):
        unsaid = {one.attempt: one for one in self.processes[who].leases._ended}
        self.dead |= self.running[who] | unsaid
        self.processes[who], self.running[who] = Process(), {}

    @rule()
    def time_of_the_dead_is_over(self):
        keys = {slots.key_of(place) for one in self.dead.values() for place in one.places}
        slots.remove({key: list(self.dead) for key in keys})
        self.dead = {}

    def all_running(self):
        return [one for held in (*self.running, self.kept) for one in held.values()]

    @invariant()
    def never_more_than_the_limits(self):
        at = [one.instance for one in self.all_running()]
        assert all(at.count(instance) <= self.MOST for instance in at)
        assert len(at) <= self.ABILITY_MOST

    @invariant()
    def redis_knows_all_that_runs(self):
        found = slots.everything().get(slots.key_of(ECHO), {})
        assert {one.attempt for one in self.all_running()} <= found.keys()

    def teardown(self):
        if not hasattr(self, "processes"):
            return
        for process, held in zip(self.processes, self.running, strict=True):
            for one in held.values():
                process.finish(one)
            process.leases.flush()
            assert not process.leases._ours
        slots.end_soon(list(self.kept.values()))
        self.time_of_the_dead_is_over()
        assert slots.everything() == {}


Shared.TestCase.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
TestShared = Shared.TestCase

"""Probes in the background: bounded, suspects apart, results in batches."""

import asyncio
import threading
from dataclasses import replace

import pytest

from common.clock import now
from registry import probes
from registry.probes import Result, Target
from registry.probes.claims import Claim
from registry.services.prober import Prober

CLAIM = Claim(0, now(), 0, 0, 3, 15.0, 15.0, Target("tcp", "http://127.0.0.1:9/", 20.0))


class Town:
    """Instances whose probes end when `go` is set, and who is being probed."""

    def __init__(self, monkeypatch, settings, instances):
        settings.REACH_PROBE_CONCURRENCY = 3
        self.found, self.running, self.most = [], 0, 0
        self.go, self.changed = threading.Event(), threading.Condition()
        monkeypatch.setitem(probes.REGISTRY, "tcp", self.hang)
        monkeypatch.setitem(probes.REGISTRY, "http", self.answer)
        self.prober = Prober(lambda batch, _: self.note(batch), lambda: instances)

    async def hang(self, target, out):
        self.count(1)
        while not self.go.is_set():
            await asyncio.sleep(0.005)
        self.count(-1)
        return ""

    async def answer(self, target, out):
        return ""

    def count(self, step):
        with self.changed:
            self.running += step
            self.most = max(self.most, self.running)
            self.changed.notify_all()

    def note(self, batch):
        with self.changed:
            self.found += batch
            self.changed.notify_all()

    def wait(self, until):
        with self.changed:
            assert self.changed.wait_for(until, 5)


@pytest.fixture
def town(monkeypatch, settings):
    made = []

    def make(instances=1):
        made.append(Town(monkeypatch, settings, instances))
        made[-1].prober.room(False)
        return made[-1]

    yield make
    for one in made:
        one.prober.stop()


def claims(count, kind="tcp", **more):
    return [replace(CLAIM, instance_pk=pk, target=replace(CLAIM.target, kind=kind), **more) for pk in range(count)]


def test_no_more_run_at_once_than_the_setting_says(town):
    here = town()
    here.prober.submit(claims(9), suspect=False)
    here.wait(lambda: here.running == 3)
    here.go.set()
    here.wait(lambda: len(here.found) == 9)
    assert here.most == 3


def test_many_instances_let_more_run_at_once(town):
    here = town(instances=500)
    here.prober.submit(claims(20), suspect=False)
    here.wait(lambda: here.running == 10)


def test_hanging_suspects_delay_nobody_else(town):
    here = town()
    here.prober.submit(claims(12), suspect=True)
    here.prober.submit(claims(5, "http"), suspect=False)
    here.wait(lambda: len(here.found) == 5)
    assert all(one.result.ok for one in here.found)


def test_a_full_pool_takes_no_more(town):
    here = town()
    assert here.prober.room(False) == 12
    here.prober.submit(claims(12), suspect=False)
    here.wait(lambda: here.prober.room(False) == 0)
    assert here.prober.room(True) == 12
    here.go.set()
    assert here.prober.idle(5)
    assert here.prober.room(False) == 12


def test_who_waited_for_too_long_is_not_probed(town):
    here = town()
    here.prober.submit(claims(3), suspect=False)
    here.wait(lambda: here.running == 3)
    here.prober.submit(claims(4, good_for_s=0.0), suspect=False)
    here.go.set()
    assert here.prober.idle(5)
    assert len(here.found) == 3


def test_a_store_that_fails_does_not_stop_later_results(town):
    here = town()
    kept, here.note = here.note, lambda batch: 1 / 0
    here.prober.submit(claims(1, "http"), suspect=False)
    assert here.prober.idle(5)
    here.note = kept
    here.prober.submit(claims(2, "http"), suspect=False)
    here.wait(lambda: len(here.found) == 2)


def test_what_cannot_be_probed_is_a_result_without_a_verdict(town):
    here = town()
    assert here.prober.run(replace(CLAIM, target=None, problem="no key")) == Result(None, 0.0, "no key")


def test_every_result_is_kept_once(town):
    here = town()
    here.prober.submit(claims(300, "http"), suspect=False)
    here.wait(lambda: len(here.found) == 300)
    assert sorted(one.claim.instance_pk for one in here.found) == list(range(300))

from datetime import timedelta

import pytest

from common.clock import now
from registry.services import evidence
from registry.services.evidence import FAILED, NEUTRAL, OK, Seen
from registry.services.hearing import Beat, hear

pytestmark = pytest.mark.django_db


def test_what_was_noted_is_read_oldest_first(place):
    (one,) = place("a")
    at = now()
    hear([Beat(one.pk, {"inflight": 3, "resources": {"gpu": 1}}, good=True, proving=True)], at)
    evidence.probed(one.pk, False, 12.5, "status 503", at, "p1")
    evidence.probed(one.pk, True, 3.0, "", at + timedelta(seconds=1), "p1")
    evidence.called([Seen(one.pk, OK, 20.0, "", at), Seen(one.pk, FAILED, None, "TIMEOUT", at + timedelta(seconds=2))])
    kept = evidence.read([one.pk])[one.pk]
    assert (kept.heard_at, kept.inflight, kept.resources, kept.beats) == (
        at.timestamp(), 3, {"gpu": 1}, (at.timestamp(),)
    )  # fmt: skip
    assert [(p.ok, p.ms, p.reason, p.prober) for p in kept.probes] == [
        (False, 12.5, "status 503", "p1"), (True, 3.0, "", "p1"),
    ]  # fmt: skip
    assert [(c.ok, c.ms, c.code) for c in kept.calls] == [(True, 20.0, ""), (False, None, "TIMEOUT")]


def test_neutral_calls_leave_no_trace(place):
    (one,) = place("a")
    evidence.called([Seen(one.pk, NEUTRAL, 5.0, "REJECTED", now())])
    assert evidence.read([one.pk])[one.pk].calls == ()
    assert evidence.take_dirty(10) == []


def test_only_so_much_is_kept(place):
    (one,) = place("a")
    at = now()
    evidence.called([Seen(one.pk, OK, float(n), "", at) for n in range(250)])
    for _ in range(25):
        evidence.probed(one.pk, True, 1.0, "", at, "p")
    kept = evidence.read([one.pk])[one.pk]
    assert (len(kept.calls), kept.calls[-1].ms, len(kept.probes)) == (200, 249.0, 20)


def test_a_bad_heartbeat_ends_the_row_of_good_ones(place):
    (one,) = place("a")
    for good in (True, True, False, True):
        hear([Beat(one.pk, {}, good=good, proving=True)], now())
    assert len(evidence.read([one.pk])[one.pk].beats) == 1


def test_failures_and_probes_ask_for_a_judgement(place):
    one, two, three = place("a", 3)
    evidence.called([Seen(one.pk, FAILED, None, "TIMEOUT", now()), Seen(two.pk, OK, 1.0, "", now())])
    evidence.probed(three.pk, True, 1.0, "", now(), "p")
    assert evidence.take_dirty(10) == [one.pk, three.pk]
    assert evidence.take_dirty(10) == []


def test_without_redis_this_process_remembers(place, away):
    (one,) = place("a")
    at = now()
    assert hear([Beat(one.pk, {}, good=True, proving=True)], at) is None
    evidence.probed(one.pk, False, 1.0, "refused", at, "p")
    evidence.called([Seen(one.pk, FAILED, None, "UNREACHABLE", at)])
    kept = evidence.read([one.pk])[one.pk]
    assert (kept.heard_at, len(kept.beats), len(kept.probes), len(kept.calls)) == (at.timestamp(), 1, 1, 1)
    assert evidence.take_dirty(10) == [one.pk]
    assert [probe.ok for probe in evidence.round_of("p", at).values()] == [False]


def test_a_new_registration_begins_with_a_clean_slate(place):
    (one,) = place("a")
    evidence.probed(one.pk, False, 1.0, "refused", now(), "p")
    evidence.forget(one.pk)
    assert evidence.read([one.pk])[one.pk] == evidence.Kept()

from datetime import timedelta

import pytest

from common.clock import now
from registry import jobs, selectors
from registry.models import Instance, StateChange
from registry.services import evidence, judging, observing, scoring
from registry.services.evidence import FAILED, OK, Seen
from registry.services.observing import Observed

pytestmark = pytest.mark.django_db


def fail_probes(rows, prober="p", times=3):
    at = now()
    for row in rows:
        for n in range(times):
            evidence.probed(row.pk, False, 1.0, "status 503", at + timedelta(seconds=n), prober)
    return at + timedelta(seconds=times)


def fail_calls(rows, times=3):
    at = now()
    evidence.called(Seen(row.pk, FAILED, None, "UNREACHABLE", at) for row in rows for _ in range(times))
    return at


def states(rows):
    found = dict(Instance.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "state"))
    return [found[row.pk] for row in rows]


def test_a_move_is_written_with_its_reason_and_told(place, namespace):
    (one,) = place("a")
    before = selectors.namespace_version(namespace)
    assert judging.judge_dirty(fail_probes([one])) == 1
    one.refresh_from_db()
    assert (one.state, one.reason) == ("OFFLINE", "3 failed probes in a row, the last: status 503")
    change = StateChange.objects.get(instance=one)
    assert (change.from_state, change.to_state, change.reason) == ("ONLINE", "OFFLINE", one.reason)
    assert selectors.namespace_version(namespace) == before + 1


def test_nothing_new_moves_nobody_and_raises_no_version(place, namespace):
    rows = place("a", 3)
    before = selectors.namespace_version(namespace)
    fail_probes(rows, times=2)
    assert judging.judge_dirty(now()) == 0
    assert selectors.namespace_version(namespace) == before


def test_who_was_moved_meanwhile_stays_where_it_is(place):
    (one,) = place("a")
    at = fail_probes([one])
    [case] = judging._cases([one.pk], at)
    Instance.objects.filter(pk=one.pk).update(state="DEGRADED")
    assert judging._carry_out([judging.Move(case, judging.Verdict("OFFLINE", "late"))], at) == 0
    assert states([one]) == ["DEGRADED"]


def test_a_good_probe_brings_it_back_as_new(place):
    (one,) = place("a")
    at = fail_probes([one])
    judging.judge_dirty(at)
    evidence.probed(one.pk, True, 1.0, "", at + timedelta(seconds=5), "p")
    judging.judge_dirty(at + timedelta(seconds=5))
    assert states([one]) == ["NEW"]


def test_a_prober_that_sees_most_fail_changes_nothing(place):
    rows = place("a", 5)
    good = place("b", 3)
    for row in good:
        evidence.probed(row.pk, True, 1.0, "", now(), "p")
    assert judging.judge_dirty(fail_probes(rows)) == 0
    assert evidence.suspects({"p", "q"}) == {"p"}


def test_half_of_ten_down_leaves_the_other_half(place):
    rows = place("a", 10)
    at = fail_probes(rows[:5])
    probed_well(rows[5:], at)
    assert judging.judge_dirty(at) == 5
    assert states(rows) == ["OFFLINE"] * 5 + ["ONLINE"] * 5


def test_three_of_three_probed_are_out_as_three_are_too_few_for_suspicion(place):
    assert judging.judge_dirty(fail_probes(place("a", 3))) == 3


def test_calls_take_out_at_most_half_and_the_rest_get_less(place):
    rows = place("a", 5)
    assert judging.judge_dirty(fail_calls(rows)) == 5
    assert sorted(states(rows)) == ["DEGRADED"] * 3 + ["OFFLINE"] * 2


def test_a_lone_instance_is_never_out_by_calls_alone(place):
    (one,) = place("a")
    judging.judge_dirty(fail_calls([one], times=10))
    one.refresh_from_db()
    assert (one.state, one.reason) == ("DEGRADED", "its last 3 calls reached nobody; kept in, as too few would be left")


def test_a_second_judge_does_not_take_out_the_other_half(place):
    rows = place("a", 4)
    judging.judge_dirty(fail_calls(rows[:2]))
    judging.judge_dirty(fail_calls(rows[2:]))
    assert states(rows) == ["OFFLINE", "OFFLINE", "DEGRADED", "DEGRADED"]


def test_the_engine_has_who_fails_in_its_hands_judged_at_once(place, namespace):
    rows = place("a", 2)
    at = now()
    key = (namespace, "a", "i0")
    seen = [Observed(key, FAILED, None, "UNREACHABLE", at), Observed((namespace, "a", "gone"), OK, 1.0, "", at)]
    assert observing.observed([seen[0]] * 3 + [seen[1]], [key], at) == 1
    assert states(rows) == ["OFFLINE", "ONLINE"]


def test_without_redis_the_engine_judges_by_what_it_saw_itself(place, namespace, away):
    rows = place("a", 2)
    at, key = now(), (namespace, "a", "i0")
    assert observing.observed([Observed(key, FAILED, None, "UNREACHABLE", at)] * 3, [key], at) == 1
    assert states(rows) == ["OFFLINE", "ONLINE"]


def test_scoring_follows_traffic_and_finds_the_slow(place):
    (one,) = place("a")
    at = now()
    evidence.called(Seen(one.pk, OK, 100.0, "", at) for _ in range(20))
    scoring.score_active(at)
    kept = evidence.read([one.pk])[one.pk]
    assert (kept.baseline_ms, kept.scored) == (100.0, evidence.Scored(0.94, 1.0, 0.8, 1.0, 100.0, 100.0))
    evidence.called(Seen(one.pk, OK, 500.0, "", at) for _ in range(20))
    scoring.score_active(at)
    one.refresh_from_db()
    assert (one.state, one.reason) == ("DEGRADED", "95% of its calls take up to 500 ms, over 300 ms")


def test_the_contracts_examples_come_out_exactly(place):
    one, two = place("a", 2)
    at = now()
    evidence.called(Seen(one.pk, OK if n % 20 else FAILED, 200.0, "", at) for n in range(100))
    evidence.called(Seen(two.pk, OK if n % 100 else FAILED, 350.0, "", at) for n in range(100))
    found = scoring.shown(one.agent, [one, two], at)
    assert [found[row.pk].scored.score for row in (one, two)] == [0.87, 0.788]


def test_the_jobs_judge_and_score(place):
    (one,) = place("a")
    fail_probes([one])
    jobs.judge()
    assert states([one]) == ["OFFLINE"]
    evidence.called([Seen(one.pk, OK, 100.0, "", now())])
    jobs.score()
    assert evidence.read([one.pk])[one.pk].scored.latency == 0.8


def answered(row, fitting, misfits, at):
    evidence.called(
        Seen(row.pk, FAILED if n < misfits else OK, 20.0, "BAD_RESPONSE" if n < misfits else "", at, n >= misfits)
        for n in range(fitting + misfits)
    )


def test_six_of_fifty_answers_that_do_not_fit_degrade_and_the_owner_sees_why(place):
    (one,) = place("a")
    at = now() - timedelta(minutes=5)  # too long ago for the share of failed calls
    answered(one, 44, 6, at)
    judging.judge_instances([one.pk], now())
    one.refresh_from_db()
    assert one.state == "DEGRADED"
    assert one.reason == "6 of its last 50 answers do not fit the declared output schema"
    assert scoring.shown(one.agent, [one], now())[one.pk].drift == (50, 6)


def test_a_new_revision_is_a_new_contract(place):
    (one,) = place("a")
    answered(one, 44, 6, now() - timedelta(minutes=5))
    one.agent.revisions.create(number=1, manifest={}, source="", digest="1")
    one.agent.revision = 1
    one.agent.save()
    assert judging.judge_instances([one.pk], now()) == 0


def test_a_single_instance_with_a_lying_probe_still_serves(place):
    (one,) = place("a")
    at = fail_probes([one])
    evidence.called([Seen(one.pk, OK, 5.0, "", at)])
    judging.judge_instances([one.pk], at)
    one.refresh_from_db()
    why = "3 failed probes in a row, the last: status 503; its calls succeed"
    assert (one.state, one.reason) == ("DEGRADED", f"{why}; kept in, as too few would be left")


def test_a_single_instance_with_an_honest_probe_is_out(place):
    (one,) = place("a")
    evidence.called([Seen(one.pk, OK, 5.0, "", now() - timedelta(seconds=1))])
    judging.judge_instances([one.pk], fail_probes([one]))
    assert states([one]) == ["OFFLINE"]


def test_lying_probes_take_out_at_most_half(place):
    rows = place("a", 3)
    at = fail_probes(rows)
    evidence.called(Seen(row.pk, OK, 5.0, "", at) for row in rows)
    judging.judge_instances([row.pk for row in rows], at)
    assert sorted(states(rows)) == ["DEGRADED", "DEGRADED", "OFFLINE"]


def probed_well(rows, at, prober="p"):
    for row in rows:
        evidence.probed(row.pk, True, 1.0, "", at, prober)


def test_while_the_others_are_not_probed_yet_nobody_is_out(place):
    rows = place("a", 9)
    start = now()
    probed_well(rows, start - timedelta(seconds=9))
    at = fail_probes(rows[:4])
    assert judging.judge_dirty(at) == 0  # five may fail as well
    probed_well(rows[4:], at)
    assert judging.judge_dirty(at) == 4


def test_a_prober_is_not_judged_by_what_another_has_probed_since(place):
    rows = place("a", 6)
    probed_well(rows, now() - timedelta(seconds=20), "p")
    for row in rows[1:]:
        evidence.probed(row.pk, False, 1.0, "status 503", now(), "q")
    assert judging.judge_dirty(fail_probes(rows[:1], "p")) == 1
    assert states(rows[:1]) == ["OFFLINE"]


def test_who_comes_back_is_not_held_to_its_old_answers(place):
    (one,) = place("a", state="OFFLINE")
    at = now()
    answered(one, 0, 20, at - timedelta(minutes=5))
    evidence.probed(one.pk, True, 1.0, "", at + timedelta(seconds=1), "p")
    judging.judge_instances([one.pk], at + timedelta(seconds=1))
    assert states([one]) == ["NEW"]
    assert scoring.shown(one.agent, [one], at)[one.pk].drift == (0, 0)

from datetime import timedelta

import pytest

from common.clock import now
from registry.models import Agent, Instance
from registry.probes import Result
from registry.probes.claims import Found
from registry.services import evidence, probing

AGENT = "/v1/agents/a1"
GOOD, BAD = Result(True, 3.0, ""), Result(False, 9.0, "the status is 500")
START = now() + timedelta(hours=1)  # whatever is registered now is due by then


@pytest.fixture
def told(monkeypatch):
    """What was handed on as evidence: [(instance, ok)]."""
    seen = []
    monkeypatch.setattr(evidence, "probed", lambda pk, ok, *_: seen.append((pk, ok)))
    return seen


@pytest.fixture
def instance(agent, manifest, told, namespace):
    manifest["spec"]["probe"] = {"timeoutMs": 1000}
    agent("PUT", AGENT, manifest)
    agent("PUT", AGENT + "/instances/i1", {"invokeUrl": "http://127.0.0.1:9/invoke"})
    row = Instance.objects.get(agent__namespace=namespace, instance_id="i1")
    Instance.objects.filter(pk=row.pk).update(probe_due_at=START)
    return row


def taken(at, instance, suspect=False):
    """The claims on this instance."""
    return [one for one in probing.claim(at, suspect=suspect, limit=100) if one.instance_pk == instance.pk]


def later(seconds):
    return START + timedelta(seconds=seconds)


def probe_with(result, at, instance, suspect=False):
    [claim] = taken(at, instance, suspect)
    return probing.record([Found(claim, result)], at)


def test_what_is_due_is_taken_once(instance):
    assert taken(later(-1), instance) == []
    [claim] = taken(later(0), instance)
    assert claim.target.url == "http://127.0.0.1:9/invoke"
    assert taken(later(1), instance) == []


def test_a_result_is_kept_and_handed_on_and_sets_the_next_time(instance, told):
    probe_with(GOOD, START, instance)
    instance.refresh_from_db()
    assert (instance.probe_successes, instance.probe_failures, instance.probed_at) == (1, 0, START)
    assert later(11.9) < instance.probe_due_at < later(18.1)
    assert told == [(instance.pk, True)]


def test_failures_in_a_row_are_counted_and_a_success_ends_them(instance):
    probe_with(BAD, later(0), instance)
    probe_with(BAD, later(3), instance, suspect=True)
    instance.refresh_from_db()
    assert (instance.probe_failures, instance.probe_reason) == (2, "the status is 500")
    probe_with(GOOD, later(6), instance, suspect=True)
    instance.refresh_from_db()
    assert (instance.probe_failures, instance.probe_reason) == (0, "")


def test_a_suspect_is_probed_sooner_and_in_the_other_pool(instance):
    probe_with(BAD, later(0), instance)
    assert taken(later(1), instance, suspect=True) == []
    assert taken(later(3), instance, suspect=False) == []
    assert len(taken(later(3), instance, suspect=True)) == 1


def test_a_result_of_an_older_claim_changes_nothing(instance, told):
    [old] = taken(later(0), instance)
    [new] = taken(later(60), instance)
    assert probing.record([Found(old, BAD)], later(61)) == []
    assert len(probing.record([Found(new, GOOD)], later(62))) == 1
    instance.refresh_from_db()
    assert (instance.probe_failures, told) == (0, [(instance.pk, True)])


def test_one_is_under_way_until_its_limits_are_over(instance):
    [claim] = taken(later(0), instance)
    longest = claim.good_for_s + claim.target.timeout_s
    assert taken(later(longest), instance) == []


def test_what_a_dead_worker_took_is_taken_again(instance):
    taken(later(0), instance)
    assert len(taken(later(18), instance)) == 1


def test_after_a_standstill_there_is_one_round(instance):
    probe_with(GOOD, later(600), instance)
    assert taken(later(601), instance) == []


def test_no_more_are_taken_than_there_is_room_for(instance, agent):
    agent("PUT", AGENT + "/instances/i2", {"invokeUrl": "http://127.0.0.1:9/invoke"})
    assert len(probing.claim(later(60), suspect=False, limit=1)) == 1


def test_without_an_address_nothing_is_probed(agent, manifest, told):
    agent("PUT", AGENT, manifest)
    agent("PUT", AGENT + "/instances/i1", {})
    row = Instance.objects.order_by("-id")[0]
    assert taken(later(60), row) == []
    row.refresh_from_db()
    assert (row.probe_claimed_at, row.probe_due_at) == (None, later(120))


def test_who_left_is_not_probed(instance, agent):
    agent("DELETE", AGENT + "/instances/i1")
    assert taken(later(60), instance) == []


def test_a_check_that_cannot_be_made_says_nothing_of_the_instance(instance, told):
    probe_with(Result(None, 0.0, "the secret is not set"), START, instance)
    instance.refresh_from_db()
    assert (instance.probe_failures, instance.probe_successes, told) == (0, 0, [])
    assert instance.probe_reason == "the secret is not set"


def test_secrets_reach_the_headers(agent, manifest, told):
    manifest["spec"] |= {"endpoints": {"invoke": "http://127.0.0.1:9/i", "health": "http://127.0.0.1:9/h"}}
    manifest["spec"]["probe"] = {"headers": {"X-Key": "k ${secret:key}"}}
    agent("PUT", AGENT, manifest)
    agent("PUT", AGENT + "/secrets", {"key": "s3"})
    row = Instance.objects.order_by("-id")[0]
    [claim] = taken(later(60), row)
    assert claim.target.headers == {"X-Key": "k s3"}


def test_probing_now_uses_the_same_settings_counts_and_answers(instance, agent, told):
    found = agent("POST", AGENT + "/instances/i1/probe")
    assert found.status_code == 200, found.content
    assert (found.json()["ok"], found.json()["reason"]) == (False, "UNREACHABLE: nothing listens there")
    instance.refresh_from_db()
    assert (instance.probe_failures, told) == (1, [(instance.pk, False)])


def test_a_scheduled_result_does_not_overwrite_that_of_a_newer_test(instance, agent, told):
    [scheduled] = taken(later(0), instance)
    agent("POST", AGENT + "/instances/i1/probe")
    assert probing.record([Found(scheduled, GOOD)], now()) == []


def test_only_the_agent_itself_and_operators_may_probe(instance, client_with, agent, operator, namespace):
    assert client_with("catalog:read")("POST", AGENT + "/instances/i1/probe").status_code == 403
    assert agent("POST", "/v1/agents/a2/instances/i1/probe").status_code == 404
    assert operator("POST", f"{AGENT}/instances/none/probe?namespace={namespace}").status_code == 404
    assert operator("POST", f"{AGENT}/instances/i1/probe?namespace={namespace}").status_code == 200


def test_a_hollow_check_earns_its_owner_a_warning_until_it_is_better(instance):
    codes = lambda: [one["code"] for one in Agent.objects.get(pk=instance.agent_id).warnings]  # noqa: E731
    probe_with(Result(True, 1.0, "healthy, but", hollow=True), later(0), instance)
    assert codes() == ["HOLLOW_HEALTH_CHECK"]
    probe_with(GOOD, later(60), instance)
    assert codes() == []

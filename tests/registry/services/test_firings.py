"""Firings from the change to their end, by the services alone: nothing is sent here."""

import json
from datetime import timedelta

import pytest
from django.db import transaction

from common.clock import now
from common.errors import NotFound
from registry.hooks.messages import Tried
from registry.hooks.sender import BOUNDS, Lane
from registry.models import Hook, HookFiring, StateChange
from registry.services import firings, heartbeats, hook_events, hooks, instances, judging, manifests

pytestmark = pytest.mark.django_db
EVENTS = ["agent.state", "agent.resource", "alert"]
URL = "http://127.0.0.1:9/hook"
LATER = now() + timedelta(hours=6)  # later than the longest run of the tests
WHO = {"actor": "test", "now": LATER}


@pytest.fixture
def hooked(namespace, place):
    """hooked(**fields) gives a new hook, and instance i0 of agent a1, which is ONLINE."""
    (row,) = place("a1", spec={"resources": {"disk": {"degradedBelow": 10}, "load": {"degradedAbove": 5}}})

    def make(**fields):
        given = {"events": EVENTS, "url": URL, **fields}
        return hooks.create(namespace, **given, actor="test", now=now()).hook, row

    return make


def told(hook):
    return [json.loads(bytes(one.body)) for one in hook.firings.order_by("id")]


def beat(namespace, **resources):
    heartbeats.heartbeat(namespace, "a1", "i0", {"resources": resources}, now=now())


def test_a_judged_move_is_told_to_hooks_of_the_agent_and_of_the_namespace(hooked, namespace, place):
    (every, row), (mine, _) = hooked(), hooked(agent_id="a1")
    place("a2")
    others = [hooks.create(namespace, events=EVENTS, url=URL, agent_id="a2", **WHO).hook, hooked(events=["alert"])[0]]
    judging.judge_instances([row.pk], LATER)
    for hook in (every, mine):
        (body,) = told(hook)
        assert (body["messageType"], body["agentId"], body["instanceId"]) == ("agent.state", "a1", "i0")
        assert (body["fromState"], body["toState"], body["reason"]) == ("ONLINE", "OFFLINE", "not heard for 30 s")
    assert [told(hook) for hook in others] == [[], []]


def test_what_is_judged_twice_is_told_once(hooked):
    hook, row = hooked()
    cases = judging._cases([row.pk], LATER)
    moves = [judging.Move(case, judging.Verdict("OFFLINE", "lost")) for case in cases]
    assert [judging._carry_out(moves, LATER) for _ in range(2)] == [1, 0]
    assert len(told(hook)) == 1


def test_a_change_that_is_rolled_back_is_not_told(hooked):
    hook, row = hooked()
    with transaction.atomic():
        instances.retire(row, "it left", LATER)
        assert len(told(hook)) == 1
        transaction.set_rollback(True)
    assert (told(hook), StateChange.objects.filter(instance=row).count()) == ([], 0)


def test_leaving_and_registering_again_are_told(hooked, namespace):
    hook, _ = hooked()
    instances.leave(namespace, "a1", "i0", **WHO)
    instances.put(namespace, "a1", "i0", {"invokeUrl": "http://127.0.0.1:9/x"}, **WHO)
    moves = [(body["fromState"], body["toState"], body["reason"]) for body in told(hook)]
    assert moves == [("ONLINE", "OFFLINE", "it left"), ("OFFLINE", "NEW", "registered")]


def test_the_body_says_that_the_agent_is_in_maintenance(hooked, namespace):
    hook, row = hooked()
    manifests.maintenance(namespace, "a1", True, **WHO)
    judging.judge_instances([row.pk], LATER)
    assert told(hook)[0]["maintenance"] is True


def test_a_resource_is_told_when_it_crosses_its_threshold_and_not_with_each_heartbeat(hooked, namespace):
    hook, _ = hooked(events=["agent.resource"])
    for disk in (40, 9, 8, 7, 40, 41):
        beat(namespace, disk=disk)
    said = [(body["resource"], body["status"], body["bound"], body["limit"], body["amount"]) for body in told(hook)]
    assert said == [("disk", "short", "degradedBelow", 10, 9), ("disk", "recovered", "degradedBelow", 10, 40)]


def test_two_resources_are_told_apart(hooked, namespace):
    hook, _ = hooked(events=["agent.resource"])
    beat(namespace, disk=9, load=6)
    assert [(body["resource"], body["bound"]) for body in told(hook)] == [
        ("disk", "degradedBelow"), ("load", "degradedAbove"),
    ]  # fmt: skip


def test_an_alert_is_told_once(hooked, namespace):
    hook, _ = hooked()
    elsewhere, _ = hooked(agent_id="a1")
    for _ in range(2):
        hook_events.fire_alert(namespace, "7", {"kind": "OFFLINE"}, agent_id=None, now=LATER)
    (body,) = told(hook)
    assert (body["messageType"], body["alertId"], body["kind"]) == ("alert", "7", "OFFLINE")
    assert told(elsewhere) == []


@pytest.fixture
def tested(hooked, namespace):
    """tested(times=1, **fields) gives a hook with so many alerts due."""

    def make(times=1, **fields):
        hook, _ = hooked(**fields)
        about = [f"alert:{n}" for n in range(times)]
        HookFiring.objects.bulk_create(
            hook_events.firing_of(hook.pk, "alert", one, namespace, "a1", {}, LATER) for one in about
        )
        return hook

    return make


def tried(due, error=None, **more):
    return Tried(due, LATER, 5, None if error else 200, error, **more)


def of(hook, state=None):
    rows = HookFiring.objects.filter(hook=hook)
    return rows.filter(state=state) if state else rows


def test_a_claim_is_good_for_its_lease_and_then_taken_up_again_with_the_same_id(tested):
    hook = tested()
    (first,) = firings.claim(LATER, Lane.WELL)
    assert firings.claim(LATER + firings.LEASE - timedelta(seconds=1), Lane.WELL) == []
    (second,) = firings.claim(LATER + firings.LEASE, Lane.WELL)
    assert (second.id, second.number, second.body) == (first.id, 2, first.body)
    assert firings.finish([tried(first)], LATER) == 0  # the first was overtaken
    assert firings.finish([tried(second)], LATER) == 1
    assert of(hook).get().state == "DELIVERED"


def test_a_failed_try_is_kept_and_repeated_later(tested):
    hook = tested()
    (due,) = firings.claim(LATER, Lane.WELL)
    firings.finish([tried(due, "HTTP 500")], LATER)
    row = of(hook).get()
    assert (row.state, row.last_error, row.attempts) == ("PENDING", "HTTP 500", 1)
    assert [(one["number"], one["error"], one["tookMs"]) for one in row.tries] == [(1, "HTTP 500", 5)]
    assert 13 <= (row.due_at - LATER).total_seconds() <= 17
    hook.refresh_from_db()
    assert (hook.failing_since, hook.last_error) == (LATER, "HTTP 500")


def test_after_five_failures_it_is_dead_and_a_success_makes_the_hook_well(tested):
    hook, at = tested(2), LATER
    for _ in range(5):
        for due in firings.claim(at, Lane.WELL) + firings.claim(at, Lane.FAILING):
            firings.finish([tried(due, "HTTP 500")], at)
        at += timedelta(hours=1)
    assert [len(row.tries) for row in of(hook, "DEAD")] == [5, 5]
    firing = hooks.send_test(hook.namespace_id, hook.pk, actor="test", now=at)
    firings.finish([tried(due) for due in firings.claim(at, Lane.FAILING)], at)
    hook.refresh_from_db()
    assert (of(hook).get(pk=firing.pk).state, hook.failing_since, hook.last_error) == ("DELIVERED", None, "")


def test_410_stops_the_hook_until_a_test_goes_well(tested, namespace):
    hook = tested(3)
    due = firings.claim(LATER, Lane.WELL)[0]
    firings.finish([tried(due, "HTTP 410", gone=True)], LATER)
    assert [of(hook, state).count() for state in ("PENDING", "DEAD")] == [0, 3]
    hook_events.fire_alert(namespace, "later", {}, agent_id="a1", now=LATER)
    assert of(hook).count() == 3
    hooks.send_test(namespace, hook.pk, **WHO)
    firings.finish([tried(due) for due in firings.claim(LATER, Lane.FAILING)], LATER)
    hook.refresh_from_db()
    assert hook.stopped_at is None


def test_a_test_is_tried_once(tested, namespace):
    hook = tested(0)
    hooks.send_test(namespace, hook.pk, **WHO)
    firings.finish([tried(due, "HTTP 500") for due in firings.claim(LATER, Lane.WELL)], LATER)
    assert of(hook).get().state == "DEAD"


def test_one_hook_gets_few_places_and_others_theirs(tested):
    full, other = tested(9), tested(2)
    per_hook = BOUNDS[Lane.WELL].per_hook
    claimed = [due.hook_id for due in firings.claim(LATER, Lane.WELL, {full.pk: per_hook - 1})]
    assert sorted(claimed, key=str) == sorted([full.pk, other.pk, other.pk], key=str)


def test_no_more_is_claimed_than_there_is_room_for(tested, monkeypatch):
    monkeypatch.setitem(BOUNDS, Lane.WELL, BOUNDS[Lane.WELL]._replace(overall=3))
    hook = tested(4)
    tested(4)
    assert len(firings.claim(LATER, Lane.WELL, {hook.pk: 1})) == 2


def test_lanes_part_the_well_the_failing_and_commands(tested, settings):
    settings.REACH_HOOK_COMMANDS = {"tell": ["/bin/true"]}
    well, failing, command = tested(), tested(), tested(url="", command="tell")
    Hook.objects.filter(pk=failing.pk).update(failing_since=LATER)
    for lane, hook in ((Lane.WELL, well), (Lane.FAILING, failing), (Lane.COMMANDS, command)):
        assert [due.hook_id for due in firings.claim(LATER, lane)] == [hook.pk]


def test_what_never_came_to_an_end_is_given_up_and_old_ones_are_forgotten(tested):
    hook = tested(2)
    lost, old = of(hook)
    HookFiring.objects.filter(pk=lost.pk).update(attempts=5)
    HookFiring.objects.filter(pk=old.pk).update(state="DELIVERED", due_at=None, ended_at=LATER - timedelta(days=2))
    assert firings.claim(LATER, Lane.WELL) == []
    assert firings.sweep(LATER, timedelta(days=1)) == 1
    (left,) = of(hook)
    assert (left.pk, left.state, left.last_error) == (lost.pk, "DEAD", "no try came to an end")


def test_a_removed_hook_takes_its_firings_along(tested, namespace):
    hook = tested(2)
    (due, _) = firings.claim(LATER, Lane.WELL)
    hooks.remove(namespace, hook.pk, **WHO)
    assert not HookFiring.objects.exists()
    assert firings.finish([tried(due)], LATER) == 0
    with pytest.raises(NotFound):
        hooks.send_test(namespace, hook.pk, **WHO)

"""Filters, shares, states, sessions and strategies, on snapshots made by hand."""

import datetime as dt
import random
import uuid
from collections import Counter

import pytest

from common.schema import Validator
from routing.ask import Ask
from routing.choice import Choice, NoChoice, choose
from routing.loads import Loads
from routing.snapshot import Ability, AgentView, CandidateView, CapabilityView, InstanceView, RouteView

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TASK = uuid.UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def instance(name="i1", agent="a", **given):
    return InstanceView(name, agent, f"http://{name}/", **given)


def candidate(agent="a", *instances, weight=None, version=None, capability=None, **given):
    view = AgentView(agent, instances=instances or (instance(agent=agent),), **given)
    return CandidateView(view, capability or CapabilityView("c"), weight, version)


def ability(*candidates, strategy="least_conn", limits=None):
    return Ability("c", True, RouteView(strategy, 3, (1000,), 500, None, frozenset(), limits=limits or {}), candidates)


def ask(**given):
    return Ask(**{"namespace": "n", "ability": "c", "task_id": TASK, "left_ms": 60_000, **given})


def chosen(view, loads=None, seed=1, **given):
    return choose(view, ask(**given), loads or Loads(), random.Random(seed).random)


def busy(count, name="i1", agent="a"):
    loads = Loads()
    loads.acquire([("n", agent, name)] * count)
    return loads


def shares(view, count=20_000, **given):
    rand, loads = random.Random(7).random, Loads()
    picks = (choose(view, ask(**given), loads, rand).instance for _ in range(count))
    return {key: number / count for key, number in Counter(one.instance_id for one in picks).items()}


def why(view, **given):
    choice = chosen(view, **given)
    assert isinstance(choice, NoChoice)
    return choice.decision["candidates"][0]["rejected"]


LABELLED = candidate("a", instance(labels={"gpu": True}))


@pytest.mark.parametrize(
    ("given", "asked", "reason"),
    [
        (candidate(), {"agent_id": "b"}, "NOT_PINNED"),
        (candidate(tags=("x",)), {"tags": ("x", "y")}, "TAGS"),
        (LABELLED, {"requires": {"gpu": False}}, "REQUIRES"),
        (candidate(version="2"), {}, "VERSION"),
        (candidate(weight=0), {}, "WEIGHT_ZERO"),
        (candidate(), {"call_path": ("a", "b", "a")}, "LOOP_DETECTED"),
        (candidate(), {"call_path": tuple("bcdefghi")}, "LOOP_DETECTED"),
        (candidate(capability=CapabilityView("c", latency_sla_ms=3000)), {"left_ms": 2999}, "BUDGET_BELOW_SLA"),
        (candidate(maintenance=True), {}, "MAINTENANCE"),
        (candidate("a", instance(draining=True)), {}, "DRAINING"),
        (candidate("a", instance(weight_percent=0)), {}, "DRAINING"),
        (candidate("a", instance(state="OFFLINE")), {}, "OFFLINE"),
        (candidate("a", InstanceView("i1", "a", "")), {}, "NO_ADDRESS"),
    ],
)
def test_a_rejected_candidate_is_named_with_its_reason(given, asked, reason):
    assert why(ability(given), **asked) == reason


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (candidate(), {"agent_id": "a"}),
        (candidate(tags=("x", "y", "z")), {"tags": ("x", "y")}),
        (LABELLED, {"requires": {"gpu": True}}),
        (candidate("a", instance(version="2"), version="2"), {}),
        (candidate(), {"call_path": ("a", "b")}),
        (candidate(capability=CapabilityView("c", latency_sla_ms=3000)), {"left_ms": 3000}),
        (candidate("a", instance(state="NEW")), {}),
        (candidate("a", instance(state="DEGRADED")), {}),
    ],
)
def test_who_fits_is_chosen(given, asked):
    assert isinstance(chosen(ability(given), **asked), Choice)


@pytest.mark.parametrize(("most", "limit"), [(1, 1), (2, 1), (5, 4), (10, 8), (50, 40)])
def test_an_instance_takes_four_fifths_of_its_declared_concurrency(most, limit):
    view = ability(candidate("a", instance(max_concurrency=most)))
    assert isinstance(chosen(view, busy(limit - 1)), Choice)
    full = chosen(view, busy(limit))
    assert isinstance(full, NoChoice)
    assert full.busy


def test_an_instance_that_declares_no_limit_has_one_all_the_same():
    view = ability(candidate())
    assert isinstance(chosen(view, busy(499)), Choice)
    assert isinstance(chosen(view, busy(500)), NoChoice)


def test_the_share_of_the_concurrency_is_the_routes_to_set():
    view = ability(candidate("a", instance(max_concurrency=10)), limits={"instanceShare": 1.0})
    assert isinstance(chosen(view, busy(9)), Choice)


def test_what_will_not_pass_is_no_reason_to_wait():
    assert chosen(ability(candidate()), call_path=("a", "a")).reason == "LOOP_DETECTED"


def test_a_loop_beside_a_busy_one_waits():
    view = ability(candidate("a"), candidate("b", instance("i2", "b", state="OFFLINE")))
    assert chosen(view, call_path=("a", "a")).reason == "NO_INSTANCE"


def test_an_unknown_ability_has_nobody():
    assert chosen(None).reason == "NO_INSTANCE"


def test_weights_are_exact_shares():
    view = ability(candidate("a", instance("i1"), weight=100), candidate("b", instance("i2", "b"), weight=30))
    assert shares(view)["i2"] == pytest.approx(30 / 130, abs=0.01)


def test_shares_do_not_depend_on_the_number_of_instances():
    nine = [instance(f"a{n}") for n in range(9)]
    view = ability(
        candidate("a", *nine, weight=80), candidate("b", instance("b0", "b"), instance("b1", "b"), weight=20)
    )
    assert sum(share for name, share in shares(view).items() if name[0] == "b") == pytest.approx(0.2, abs=0.01)


def test_weight_zero_means_none():
    view = ability(candidate("a", instance("i1"), weight=100), candidate("b", instance("i2", "b"), weight=0))
    assert shares(view, 5000) == {"i1": 1.0}


def test_weight_zero_takes_nothing_even_when_alone():
    view = ability(
        candidate("a", instance("i1", state="OFFLINE"), weight=100), candidate("b", instance("i2", "b"), weight=0)
    )
    assert isinstance(chosen(view), NoChoice)


def test_the_share_of_an_unavailable_candidate_goes_to_the_others_by_weight():
    down = candidate("c", instance("i3", "c", state="OFFLINE"), weight=50)
    view = ability(candidate("a", instance("i1"), weight=75), candidate("b", instance("i2", "b"), weight=25), down)
    assert shares(view)["i2"] == pytest.approx(0.25, abs=0.01)


def test_new_instances_take_a_tenth():
    view = ability(candidate("a", instance("old"), instance("new1", state="NEW"), instance("new2", state="NEW")))
    assert shares(view)["old"] == pytest.approx(0.9, abs=0.01)


def test_new_instances_take_everything_if_there_is_nothing_else():
    assert shares(ability(candidate("a", instance("new", state="NEW"))), 100) == {"new": 1.0}


def test_a_degraded_instance_takes_less():
    view = ability(candidate("a", instance("i1"), instance("i2", state="DEGRADED")), strategy="round_robin")
    assert 0.1 < shares(view)["i2"] < 0.3


def test_a_session_stays_with_candidate_and_instance():
    view = ability(
        candidate("a", instance("i1"), instance("i2"), weight=50), candidate("b", instance("i3", "b"), weight=50)
    )
    assert {len(shares(view, 50, session_id=f"s{n}")) for n in range(50)} == {1}


def test_sessions_are_spread_by_weight():
    view = ability(candidate("a", instance("i1"), weight=80), candidate("b", instance("i2", "b"), weight=20))
    picks = [chosen(view, session_id=f"s{n}").instance.instance_id for n in range(5000)]
    assert picks.count("i2") / 5000 == pytest.approx(0.2, abs=0.02)


def test_other_instances_coming_and_going_move_few_sessions():
    four = [instance(f"i{n}") for n in range(4)]
    before, after = ability(candidate("a", *four)), ability(candidate("a", *four, instance("i4")))
    sessions = [f"s{n}" for n in range(2000)]
    moved = sum(chosen(before, session_id=s).instance != chosen(after, session_id=s).instance for s in sessions)
    assert moved / 2000 < 0.25


def test_a_preferred_region_is_kept_to_while_it_has_somebody():
    view = ability(candidate("a", instance("i1", region="x"), instance("i2", region="y")))
    assert shares(view, 200, prefer_local="y") == {"i2": 1.0}


def test_a_region_that_has_nobody_fails_over():
    view = ability(candidate("a", instance("i1", region="x"), instance("i2", region="y", state="OFFLINE")))
    assert chosen(view, prefer_local="y").instance.instance_id == "i1"


def test_only_candidates_whose_schema_the_payload_fits_are_chosen():
    strict = CapabilityView("c", input=Validator({"type": "object", "required": ["x"]}))
    view = ability(candidate("a", instance("i1"), capability=strict), candidate("b", instance("i2", "b")))
    assert shares(view, 200, fits=lambda capability: capability is not strict) == {"i2": 1.0}


def test_round_robin_takes_turns():
    view = ability(candidate("a", *(instance(f"i{n}") for n in range(3))), strategy="round_robin")
    picks = [chosen(view).instance.instance_id for _ in range(6)]
    assert picks[:3] == picks[3:]
    assert len(set(picks)) == 3


def test_least_conn_prefers_the_idle_one():
    view = ability(candidate("a", instance("i1"), instance("i2")))
    assert {chosen(view, busy(5), seed=n).instance.instance_id for n in range(20)} == {"i2"}


def test_least_conn_counts_by_weight():
    view = ability(candidate("a", instance("i1", weight=1000), instance("i2", weight=100)))
    loads = busy(20, "i1")
    loads.acquire([("n", "a", "i2")] * 5)
    assert {chosen(view, loads, seed=n).instance.instance_id for n in range(20)} == {"i1"}


def test_least_conn_spreads_a_burst():
    view = ability(candidate("a", *(instance(f"i{n}") for n in range(3))))
    assert len(shares(view, 200)) == 3


def test_the_decision_names_the_chosen_and_the_rejected():
    decision = chosen(ability(candidate("a", instance("i1"), instance("i2", state="OFFLINE")))).decision
    assert decision["chosen"] == {"agentId": "a", "instanceId": "i1"}
    assert {one["instanceId"]: one["rejected"] for one in decision["candidates"]} == {"i1": None, "i2": "OFFLINE"}


def test_a_decision_over_many_instances_stays_small():
    decision = chosen(ability(candidate("a", *(instance(f"i{n}") for n in range(300))))).decision
    assert (len(decision["candidates"]), decision["omitted"]) == (50, 250)


def test_released_slots_are_free_again():
    loads = busy(3)
    loads.release([("n", "a", "i1")] * 3)
    assert loads.inflight(("n", "a", "i1")) == 0


@pytest.mark.parametrize(("seconds", "low", "high"), [(0, 0.03, 0.08), (15, 0.24, 0.31), (30, 0.48, 0.52)])
def test_who_came_online_just_now_begins_slowly(seconds, low, high):
    began = NOW - dt.timedelta(seconds=seconds)
    view = ability(candidate("a", instance("old"), instance("back", state_since=began)))
    assert low < shares(view, now=NOW)["back"] < high


def test_who_begins_slowly_takes_everything_if_there_is_nobody_else():
    view = ability(candidate("a", instance("back", state_since=NOW)))
    assert chosen(view, now=NOW).instance.instance_id == "back"

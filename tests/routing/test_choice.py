"""Filters, shares, states, sessions and strategies, on snapshots made by hand."""

import datetime as dt
import uuid

import pytest

from common.schema import Validator
from routing.choice import Choice, NoChoice
from routing.snapshot import CapabilityView, InstanceView, Vitals
from tests.routing.views import ability, busy, candidate, chosen, instance, shares

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


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
        (candidate(schema_versions=frozenset({"2.0"})), {}, "SCHEMA_VERSION"),
        (candidate(needs=frozenset({"userId"})), {"context": frozenset({"source"})}, "NEEDS"),
        (candidate("a", instance(zone="dmz")), {"zones": frozenset({"inner"})}, "ZONE"),
        (candidate("a", instance(networks={"office": "http://o/"})), {"network": "lab"}, "NETWORK"),
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
        (candidate(schema_versions=frozenset({"1.0", "2.0"})), {}),
        (candidate(needs=frozenset({"userId"})), {"context": frozenset({"userId", "source"})}),
        (candidate(needs=frozenset({"userId"})), {"context": None}),
        (candidate("a", instance(zone="dmz")), {"zones": frozenset({"dmz"})}),
        (candidate("a", instance(zone="dmz")), {}),
        (candidate(), {"zones": frozenset({"dmz"})}),
        (candidate("a", instance(networks={"office": "http://o/"})), {"network": "office"}),
        (candidate(), {"network": "office"}),
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


@pytest.mark.parametrize("weights", [(100, 30), (99, 1), (1, 99), (50, 50)])
@pytest.mark.parametrize("strategy", ["least_conn", "round_robin", "score", "cheapest"])
def test_weights_are_exact_shares_under_every_strategy(weights, strategy):
    first, second = weights
    view = ability(
        candidate("a", instance("i1"), weight=first), candidate("b", instance("i2", "b"), weight=second),
        strategy=strategy,
    )  # fmt: skip
    assert shares(view, 10_000).get("i2", 0) == pytest.approx(second / (first + second), abs=0.015)


def test_by_consistent_hash_too_the_tasks_are_spread_by_weight():
    view = ability(
        candidate("a", instance("i1"), weight=70), candidate("b", instance("i2", "b"), weight=30),
        strategy="consistent_hash",
    )  # fmt: skip
    picks = [chosen(view, task_id=uuid.UUID(int=n)).instance.instance_id for n in range(4000)]
    assert picks.count("i2") / 4000 == pytest.approx(0.3, abs=0.03)


def test_a_candidate_of_a_version_has_only_the_instances_of_that_version():
    agent = [instance("old", version="1"), instance("new", version="2")]
    view = ability(candidate("a", *agent, weight=90, version="1"), candidate("a", *agent, weight=10, version="2"))
    assert shares(view, 10_000)["new"] == pytest.approx(0.1, abs=0.015)


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


def test_a_share_that_grows_takes_sessions_and_moves_no_other():
    def view(*weights):
        return ability(
            *(candidate(name, instance(name, name), weight=w) for name, w in zip("abc", weights, strict=True))
        )

    before, after = view(50, 25, 25), view(50, 30, 25)
    moved = [
        (
            chosen(before, session_id=f"s{n}").instance.instance_id,
            chosen(after, session_id=f"s{n}").instance.instance_id,
        )
        for n in range(2000)
    ]
    assert {after for before, after in moved if before != after} == {"b"}


def test_a_session_goes_elsewhere_only_while_its_instance_is_away():
    four = [instance(f"i{n}") for n in range(4)]
    own = chosen(ability(candidate("a", *four)), session_id="s").instance
    gone = [instance(one.instance_id, state="OFFLINE") if one is own else one for one in four]
    assert chosen(ability(candidate("a", *gone)), session_id="s").instance.instance_id != own.instance_id
    assert chosen(ability(candidate("a", *four)), session_id="s").instance == own


@pytest.mark.parametrize("strategy", ["round_robin", "least_conn", "score", "cheapest", "least_load"])
def test_a_session_stays_under_every_strategy_however_busy_its_instance_is(strategy):
    view = ability(candidate("a", instance("i1"), instance("i2")), strategy=strategy)
    own = chosen(view, session_id="s").instance
    assert chosen(view, busy(50, own.instance_id), session_id="s").instance == own


def test_other_instances_coming_and_going_move_few_sessions():
    four = [instance(f"i{n}") for n in range(4)]
    before, after = ability(candidate("a", *four)), ability(candidate("a", *four, instance("i4")))
    sessions = [f"s{n}" for n in range(2000)]
    moved = sum(chosen(before, session_id=s).instance != chosen(after, session_id=s).instance for s in sessions)
    assert moved / 2000 <= 0.25


def test_a_preferred_region_is_kept_to_while_it_has_somebody():
    view = ability(candidate("a", instance("i1", region="x"), instance("i2", region="y")))
    assert shares(view, 200, prefer_local="y") == {"i2": 1.0}


def test_a_preferred_region_takes_no_share_from_a_candidate_that_is_elsewhere():
    here = candidate("a", instance("i1", region="x"), weight=80)
    view = ability(here, candidate("b", instance("i2", "b", region="y"), weight=20))
    assert shares(view, 5000, prefer_local="x")["i2"] == pytest.approx(0.2, abs=0.02)


def test_a_region_that_has_nobody_fails_over():
    view = ability(candidate("a", instance("i1", region="x"), instance("i2", region="y", state="OFFLINE")))
    assert chosen(view, prefer_local="y").instance.instance_id == "i1"


def test_only_candidates_whose_schema_the_payload_fits_are_chosen():
    strict = CapabilityView("c", input=Validator({"type": "object", "required": ["x"]}))
    view = ability(candidate("a", instance("i1"), capability=strict), candidate("b", instance("i2", "b")))
    assert shares(view, 200, fits=lambda capability: capability is not strict) == {"i2": 1.0}


def test_who_the_task_is_not_meant_for_is_named_where_nobody_else_is():
    assert chosen(ability(candidate(needs=frozenset({"userId"}))), context=frozenset()).why == "NEEDS"


def test_candidates_are_shown_with_their_scores():
    decision = chosen(ability(candidate("a", instance(vitals=Vitals(1.0, 0.6, 0.95))))).decision
    assert decision["candidates"][0]["score"] == 0.87


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

"""What each strategy picks, on snapshots made by hand."""

import json
import subprocess
import sys
import uuid
from collections import Counter

import pytest

from reach_platform.environment import STRATEGIES
from registry.score import Weights
from routing.route_tables import ROUTE
from routing.snapshot import CapabilityView, Price, Vitals
from routing.strategies import REGISTRY
from tests.routing.views import ability, busy, candidate, chosen, instance, shares, under_load


def view(strategy, *instances, **given):
    return ability(candidate("a", *instances), strategy=strategy, **given)


def several(count, **given):
    return [instance(f"i{n}", **given) for n in range(count)]


def pick(view, loads=None, **given):
    return chosen(view, loads, **given).instance.instance_id


def always(view, loads=None):
    """Who is picked, whatever chance says."""
    [only] = {pick(view, loads, seed=n) for n in range(20)}
    return only


def test_settings_and_route_tables_know_the_same_strategies():
    assert set(STRATEGIES) == REGISTRY.keys() == set(ROUTE["properties"]["strategy"]["enum"])


def test_round_robin_takes_turns():
    three = view("round_robin", *several(3))
    picks = [pick(three) for _ in range(6)]
    assert picks[:3] == picks[3:]
    assert len(set(picks)) == 3


def test_weighted_round_robin_is_smooth():
    by_weight = view("weighted_round_robin", instance("a", weight=500), instance("b"), instance("c"))
    assert "".join(pick(by_weight) for _ in range(14)) in ("aabacaa" * 3)


def test_weighted_round_robin_gives_an_instance_that_was_away_no_backlog():
    both, alone = (view("weighted_round_robin", *several(n)) for n in (2, 1))
    for _ in range(20):
        pick(alone)
    assert Counter(pick(both) for _ in range(10)) == {"i0": 5, "i1": 5}


def test_least_conn_prefers_the_idle_one():
    assert always(view("least_conn", *several(2)), busy(5, "i0")) == "i1"


def test_least_conn_counts_by_weight():
    loads = busy(20, "i1")
    loads.acquire([("n", "a", "i2")] * 5)
    assert always(view("least_conn", instance("i1", weight=1000), instance("i2")), loads) == "i1"


def test_least_conn_spreads_a_burst_over_the_best_three():
    loads = busy(30, "i3")
    assert shares(view("least_conn", *several(3)), 3000).values() == pytest.approx([1 / 3] * 3, abs=0.03)
    assert {pick(view("least_conn", *several(4)), loads, seed=n) for n in range(100)} == {"i0", "i1", "i2"}


def test_idle_instances_beyond_the_first_three_are_used_too():
    assert len(shares(view("least_conn", *several(50)), 3000)) == 50


@pytest.mark.parametrize("strategy", ["least_conn", "score", "least_load", "cheapest", "weighted_round_robin"])
def test_two_equal_instances_end_even_under_load(strategy):
    better, worse = Vitals(1.0, 0.60, 1.0), Vitals(1.0, 0.45, 1.0)  # 0.045 apart: the noise of two equal ones
    two = view(strategy, instance("i1", vitals=better), instance("i2", vitals=worse))
    assert 0.45 <= under_load(two)["i1"] <= 0.55


def test_score_takes_the_one_that_can_be_reached_clearly_better():
    assert (
        always(view("score", instance("i1", vitals=Vitals(1.0, 0.2)), instance("i2", vitals=Vitals(1.0, 0.9)))) == "i2"
    )


def test_score_takes_the_less_busy_one_within_five_hundredths():
    near = view("score", instance("i1", vitals=Vitals(1.0, 0.5, 1.0)), instance("i2", vitals=Vitals(1.0, 0.34, 1.0)))
    assert always(near, busy(1)) == "i2"


def test_score_is_weighed_as_the_route_says():
    quick_but_failing, slow_but_sure = Vitals(1.0, 1.0, 0.2), Vitals(1.0, 0.2, 1.0)
    two = [instance("i1", vitals=quick_but_failing), instance("i2", vitals=slow_but_sure)]
    assert always(view("score", *two, score_weights=Weights(0, 1, 0))) == "i1"
    assert always(view("score", *two, score_weights=Weights(0, 0, 1))) == "i2"


def test_least_load_counts_by_declared_concurrency():
    loads = busy(10, "i1")
    loads.acquire([("n", "a", "i2")] * 2)
    assert (
        always(view("least_load", instance("i1", max_concurrency=100), instance("i2", max_concurrency=5)), loads)
        == "i1"
    )


def test_least_load_breaks_a_tie_by_hash():
    ten = view("least_load", *several(10, max_concurrency=5))
    assert len({pick(ten, task_id=uuid.UUID(int=n)) for n in range(100)}) == 10
    assert always(ten) == pick(ten)


def test_cheapest_takes_the_lowest_price():
    dear, cheap = Price(per_call=0.002), Price(per_call=0.001, per_second=0.0001)
    assert always(view("cheapest", instance("i1", cost=dear), instance("i2", cost=cheap))) == "i2"


def test_cheapest_passes_over_who_is_slower_than_agreed():
    cheap_but_slow = instance("i1", cost=Price(0.001), vitals=Vitals(mean_ms=900.0))
    agreed = CapabilityView("c", latency_sla_ms=500)
    two = ability(
        candidate("a", cheap_but_slow, instance("i2", cost=Price(0.1)), capability=agreed), strategy="cheapest"
    )
    assert always(two) == "i2"


def test_a_fifth_instance_takes_a_quarter_of_the_tasks_at_the_most_and_from_each():
    four, five = view("consistent_hash", *several(4)), view("consistent_hash", *several(5))
    tasks = [uuid.UUID(int=n) for n in range(4000)]
    moved = [(pick(four, task_id=t), pick(five, task_id=t)) for t in tasks]
    changes = Counter(before for before, after in moved if before != after)
    assert {after for before, after in moved if before != after} == {"i4"}
    assert sum(changes.values()) / 4000 <= 0.25
    assert len(changes) == 4


def test_consistent_hash_leaves_nothing_to_chance_whatever_the_states():
    mixed = view("consistent_hash", *several(3), instance("new", state="NEW"), instance("sick", state="DEGRADED"))
    for number in range(50):
        assert len({pick(mixed, task_id=uuid.UUID(int=number), seed=seed) for seed in range(5)}) == 1


ELSEWHERE = """
import json, sys, uuid, django
django.setup()
from tests.routing.test_strategies import pick, several, view
asked = json.load(sys.stdin)
five = view("consistent_hash", *several(5))
print(json.dumps([[pick(five, task_id=uuid.UUID(int=n)), pick(five, session_id=f"s{n}")] for n in asked]))
"""


def test_another_process_maps_tasks_and_sessions_alike():
    asked, five = list(range(50)), view("consistent_hash", *several(5))
    ran = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=json.dumps(asked), capture_output=True, text=True, check=True,
        env={"DJANGO_SETTINGS_MODULE": "reach_platform.settings", "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    here = [[pick(five, task_id=uuid.UUID(int=n)), pick(five, session_id=f"s{n}")] for n in asked]
    assert json.loads(ran.stdout.splitlines()[-1]) == here

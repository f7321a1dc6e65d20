"""Whom breakers keep a task from, and that too few are never left."""

import pytest

from routing.breaker import barred, half_open
from routing.breaker.rule import Circuit, Key
from tests.routing.test_choice import ability, candidate, instance, why

NOW = 1000.0


def opened(at=990.0, until=1020.0, **given):
    return Circuit(opened=at, until=until, **given)


def view(count, **first):
    names = [f"i{n}" for n in range(1, count + 1)]
    return ability(candidate("a", instance("i1", **first), *map(instance, names[1:])))


def out(circuits, there, client="shop"):
    return {name for _, name in barred(circuits, "n", there, client, NOW)}


def of(*names, at=None):
    return {Key("n", "a", name): opened(at=(at or {}).get(name, 990.0)) for name in names}


def test_an_instance_whose_circuit_is_open_gets_nothing():
    assert out(of("i1"), view(2)) == {"i1"}


def test_a_client_s_own_circuit_bars_nobody_else():
    circuits = {Key("n", "a", "i1", "c", "shop"): opened()}
    assert out(circuits, view(2)) == {"i1"}
    assert out(circuits, view(2), client="crm") == set()


def test_an_only_instance_is_barred_too():
    assert out(of("i1"), view(1)) == {"i1"}


@pytest.mark.parametrize(("count", "most"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_at_most_half_are_barred_and_of_more_those_that_opened_last(count, most):
    names = [f"i{n}" for n in range(1, count + 1)]
    circuits = of(*names, at={name: 900.0 + n for n, name in enumerate(names)})
    assert out(circuits, view(count)) == set(names[-most:])


def test_those_that_passive_health_ejected_count_among_them():
    assert out(of("i2"), view(3, state="OFFLINE", ejected=True)) == set()
    assert out(of("i2"), view(3, state="OFFLINE")) == {"i2"}


def test_half_open_it_takes_one_and_during_the_trial_none():
    waiting, trying = opened(until=995.0), opened(until=995.0, trial=7, trial_until=1010.0)
    assert out({Key("n", "a", "i1"): waiting}, view(1)) == set()
    assert half_open({Key("n", "a", "i1"): waiting}, "n", ("a", "i1"), "c", "shop", NOW) == [Key("n", "a", "i1")]
    assert out({Key("n", "a", "i1"): trying}, view(1)) == {"i1"}


def test_one_that_is_sent_to_for_want_of_others_is_on_no_trial():
    assert half_open({Key("n", "a", "i1"): opened()}, "n", ("a", "i1"), "c", "shop", NOW) == []


def test_the_journey_says_why():
    assert why(view(1), barred=frozenset({("a", "i1")})) == "BREAKER_OPEN"

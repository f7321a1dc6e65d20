"""Breakers as documents show them."""

from routing.breaker import InstanceBreaker, Key, of_agent
from routing.breaker.rule import Circuit, on_trial

AT = 1_800_000_000.0
OPEN = Circuit(opened=AT, until=AT + 30)
OWN = Key("n", "a", "i1")
SHOP, BANK = Key("n", "a", "i1", "echo", "shop"), Key("n", "a", "i1", "echo", "bank")


def shown(circuits, now=AT + 1, client=None):
    found = of_agent(circuits, "n", "a", now, client)
    return {name: one.document for name, one in found.items()}


def test_an_open_breaker_is_shown_since_when_and_until_when():
    assert shown({OWN: OPEN}) == {"i1": {
        "state": "OPEN", "since": "2027-01-15T08:00:00.000Z", "trialAt": "2027-01-15T08:00:30.000Z", "onTrial": False,
        "clients": [],
    }}  # fmt: skip


def test_after_the_cool_down_it_is_half_open_and_perhaps_on_trial():
    tried = on_trial(OPEN, 7, AT + 31, AT + 40)
    states = [shown({OWN: one}, AT + 32)["i1"] for one in (OPEN, tried)]
    assert [(one["state"], one["onTrial"]) for one in states] == [("HALF_OPEN", False), ("HALF_OPEN", True)]


def test_single_clients_have_their_own_and_the_instances_stays_closed():
    document = shown({SHOP: OPEN, BANK: OPEN})["i1"]
    assert (document["state"], document["since"]) == ("CLOSED", None)
    assert [(one["client"], one["ability"], one["state"]) for one in document["clients"]] == [
        ("bank", "echo", "OPEN"), ("shop", "echo", "OPEN"),
    ]  # fmt: skip


def test_a_client_is_told_of_no_other_client():
    document = shown({OWN: OPEN, SHOP: OPEN, BANK: OPEN}, client="shop")["i1"]
    assert (document["state"], [one["client"] for one in document["clients"]]) == ("OPEN", ["shop"])


def test_other_agents_and_namespaces_are_not_mixed_in():
    assert shown({Key("n", "b", "i1"): OPEN, Key("m", "a", "i1"): OPEN}) == {}


def test_a_closed_one_says_so():
    assert InstanceBreaker().document["state"] == "CLOSED"

"""What a call costs: the agent's own word, else the declared price times what was used."""

import datetime as dt

import pytest

from common.clock import now
from routing.cost import charged, cost_of, tokens_of
from routing.snapshot.model import Price
from routing.states import Certainty
from routing.trip import Outcome

TWO_S = dt.timedelta(seconds=2)


def outcome(kind="SUCCEEDED", **more):
    return Outcome(kind, Certainty.RAN, now(), now(), **more)


@pytest.mark.parametrize(
    ("price", "usage", "amount"),
    [
        (Price(per_call=0.002, currency="USD"), None, 0.002),
        (Price(per_second=0.1, currency="USD"), None, 0.2),
        (Price(per_token=0.000002, currency="USD"), {"tokens": 1000}, 0.002),
        (Price(0.1, 0.1, 0.1, "USD"), {"prompt_tokens": 3, "completion_tokens": 4}, 1.0),
        (Price(per_token=1.0, currency="USD"), {"tokens": "many"}, 0.0),
    ],
)
def test_a_call_costs_its_price_times_what_was_used(price, usage, amount):
    assert cost_of(price, TWO_S, usage) == {"amount": amount, "currency": "USD"}


def test_what_an_agent_reports_wins():
    said = {"amount": 9, "currency": "CNY"}
    assert charged(outcome(cost=said), Price(per_call=1.0), TWO_S).cost == said


def test_a_failure_and_an_agent_without_a_price_cost_nothing():
    assert charged(outcome("FAILED"), Price(per_call=1.0), TWO_S).cost is None
    assert charged(outcome(), None, TWO_S).cost is None


@pytest.mark.parametrize("usage", [None, {}, {"tokens": -1}, {"tokens": True}, {"input_tokens": 3}])
def test_usage_without_a_sensible_number_of_tokens_counts_none(usage):
    assert tokens_of(usage) == 0.0

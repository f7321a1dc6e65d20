"""What a successful call costs: as its agent reports, else by the price that was declared for it.

cost = perCall + perSecond × seconds + perToken × tokens (manifest's or instance's `cost`).
"""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

from routing.snapshot.model import Price
from routing.trip import Outcome

DIGITS = Decimal("0.000001")
_TOKENS = (("tokens",), ("totalTokens",), ("total_tokens",), ("inputTokens", "outputTokens"),
           ("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"))  # fmt: skip


def charged(outcome: Outcome, price: Price | None, lasted: dt.timedelta) -> Outcome:
    """The outcome with its cost, where it is a success that reports none and there is a price."""
    if outcome.kind != "SUCCEEDED" or outcome.cost is not None or price is None:
        return outcome
    return replace(outcome, cost=cost_of(price, lasted, outcome.usage))


def cost_of(price: Price, lasted: dt.timedelta, usage: dict[str, Any] | None) -> dict[str, Any]:
    """{"amount", "currency"}, the amount to a millionth."""
    parts = (
        (price.per_call, 1.0),
        (price.per_second, max(0.0, lasted.total_seconds())),
        (price.per_token, tokens_of(usage)),
    )
    amount = sum((Decimal(repr(each)) * Decimal(repr(count)) for each, count in parts), Decimal())
    return {"amount": float(amount.quantize(DIGITS)), "currency": price.currency or None}


def tokens_of(usage: dict[str, Any] | None) -> float:
    """The tokens that a call used, by the names that agents commonly say it with; 0 if it does not say."""
    for names in _TOKENS:
        found = [(usage or {}).get(name) for name in names]
        if all(isinstance(one, int | float | Decimal) and not isinstance(one, bool) and one >= 0 for one in found):
            return float(sum(one for one in found if one is not None))
    return 0.0

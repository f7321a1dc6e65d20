"""The one that costs the least, of those that are fast enough."""

from routing.filters import Seen
from routing.strategies.base import Pool
from routing.strategies.least_conn import BEST, least_busy

TOKENS = 1000  # a call's, for comparing prices by token
UNMEASURED_MS = 1000.0  # how long a call takes where neither a measurement nor an agreement says so
_SAME = 1e-9


class Cheapest:
    """Expected cost of a call, within the agreed latency; who declares no price costs nothing.

    Too slow is who lately took longer than agreed, or than the task has left; if all are, that decides nothing.
    Currencies are not converted: where several are declared, amounts are compared as they stand.
    """

    def pick(self, pool: Pool) -> Seen:
        took = [one.instance.vitals.mean_ms for _, one in pool.options]
        quick = [
            option
            for option, ms in zip(pool.options, took, strict=True)
            if ms is None or ms <= (option[1].candidate.capability.latency_sla_ms or pool.ask.left_ms)
        ]
        options = quick or pool.options
        costs = [expected_cost(one) for _, one in options]
        least = min(costs) + _SAME
        return least_busy([o for o, cost in zip(options, costs, strict=True) if cost <= least], pool.rand, BEST)


def expected_cost(one: Seen) -> float:
    """What a call is likely to cost there, in the currency of its price."""
    price = one.instance.cost
    if price is None:
        return 0.0
    at_once = price.per_call + price.per_token * TOKENS
    if not price.per_second:
        return at_once
    ms = one.instance.vitals.mean_ms or one.candidate.capability.latency_sla_ms or UNMEASURED_MS
    return at_once + price.per_second * ms / 1000

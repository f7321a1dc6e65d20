"""The one that costs the least, of those that are fast enough."""

from routing.filters import Seen
from routing.strategies.base import Option, Pool
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
        quick = [option for option in pool.options if _is_within(option, pool.ask.left_ms)] or pool.options
        costs = [expected_cost(one) for _, one in quick]
        least = min(costs) + _SAME
        return least_busy([o for o, cost in zip(quick, costs, strict=True) if cost <= least], pool.rand, BEST)


def expected_cost(one: Seen) -> float:
    """What a call is likely to cost there, in the currency of its price."""
    price = one.instance.cost
    if price is None:
        return 0.0
    ms = one.instance.vitals.mean_ms or one.candidate.capability.latency_sla_ms or UNMEASURED_MS
    return price.per_call + price.per_second * ms / 1000 + price.per_token * TOKENS


def _is_within(option: Option, left_ms: int) -> bool:
    one = option[1]
    took = one.instance.vitals.mean_ms
    agreed = one.candidate.capability.latency_sla_ms
    return took is None or took <= (left_ms if agreed is None else min(agreed, left_ms))

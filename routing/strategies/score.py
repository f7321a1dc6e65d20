"""The one that can be reached best; of those that are about as good, the less busy one."""

from registry.score import DEFAULT
from routing.filters import Seen
from routing.strategies.base import Pool
from routing.strategies.least_conn import least_busy

NEAR = 0.05  # scores this close to the best are as good
_EXACT = 1e-9  # scores have four decimals, which floats do not hold exactly


class Score:
    """Reachability, by the weights of the route where it has some."""

    def pick(self, pool: Pool) -> Seen:
        weights = pool.layout.ability.route.score_weights
        if weights is DEFAULT:
            scores = [one.instance.vitals.score for _, one in pool.options]
        else:
            scores = [one.instance.vitals.score_by(weights) for _, one in pool.options]
        least = max(scores) - NEAR - _EXACT
        return least_busy(
            [option for option, score in zip(pool.options, scores, strict=True) if score >= least], pool.rand
        )

"""Which of several good instances takes a task: one file a strategy, one line in the table."""

from routing.strategies.base import Pool, Strategy
from routing.strategies.cheapest import Cheapest
from routing.strategies.consistent_hash import ConsistentHash
from routing.strategies.least_conn import LeastConn
from routing.strategies.least_load import LeastLoad
from routing.strategies.round_robin import RoundRobin
from routing.strategies.score import Score
from routing.strategies.weighted_round_robin import WeightedRoundRobin

REGISTRY: dict[str, Strategy] = {
    "cheapest": Cheapest(),
    "consistent_hash": ConsistentHash(),
    "least_conn": LeastConn(),
    "least_load": LeastLoad(),
    "round_robin": RoundRobin(),
    "score": Score(),
    "weighted_round_robin": WeightedRoundRobin(),
}

__all__ = ["REGISTRY", "Pool", "Strategy"]

"""Which of several good instances takes a task: one file a strategy, one line in the table."""

from routing.strategies.base import Strategy
from routing.strategies.least_conn import LeastConn
from routing.strategies.round_robin import RoundRobin

REGISTRY: dict[str, Strategy] = {
    "least_conn": LeastConn(),
    "round_robin": RoundRobin(),
}

__all__ = ["REGISTRY", "Strategy"]

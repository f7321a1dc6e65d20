"""The reachability score, by the examples of the contract."""

import pytest

from registry.score import Parts, Weights, latency_factor, score


@pytest.mark.parametrize(
    ("ms", "success", "expected"), [(200, 0.95, 0.87), (350, 0.99, 0.788), (0, 1, 1), (900, 0, 0.5)]
)
def test_a_healthy_instances_score_is_exact(ms, success, expected):
    assert score(Parts(1.0, latency_factor(ms), success)) == expected


def test_what_is_not_known_does_not_count():
    assert score(Parts(1.0)) == 1.0
    assert score(Parts(0.3, None, 1.0)) == round((0.15 + 0.2) / 0.7, 4)


def test_weights_are_normalised():
    parts = Parts(1.0, 0.6, 0.95)
    assert score(parts, Weights(5, 3, 2)) == score(parts) == 0.87
    assert score(parts, Weights(0, 1, 0)) == 0.6
    assert score(parts, Weights(0, 0, 0)) == 0.0


def test_the_ceiling_can_be_raised_for_agents_that_run_minutes():
    assert latency_factor(60_000, 120_000) == 0.5
    assert latency_factor(60_000) == 0.0

"""Scores in snapshots: read from the evidence in the background, kept while it is away."""

import datetime as dt

import pytest

from common import redis
from registry.services import evidence
from registry.services.evidence import Scored
from routing.snapshot import AgentView, InstanceView, Snapshot, Vitals, scores

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


@pytest.fixture
def known(monkeypatch):
    """A snapshot of one healthy instance; what this process knows of scores is forgotten afterwards."""
    monkeypatch.setattr(scores, "_latest", {})
    evidence.forget(4711)
    agent = AgentView("a", instances=(InstanceView("i1", "a", "http://x/", pk=4711),))
    yield Snapshot("n", 1, NOW, {}, {"a": agent})
    evidence.forget(4711)


def only(known):
    return known.agents["a"].instances[0]


def test_a_snapshot_at_hand_gets_the_scores_of_the_evidence(known):
    evidence.keep_scores({4711: (Scored(0.94, 1.0, 0.8, 1.0, 90.0, 100.0), None)})
    scores.refresh([known])
    assert (only(known).score, only(known).vitals.mean_ms) == (0.94, 100.0)


def test_health_is_that_of_the_snapshot_and_not_of_the_last_scoring(known):
    evidence.keep_scores({4711: (Scored(0.94, 1.0, 0.8, 1.0), None)})
    scores.refresh([known])
    assert scores.vitals(4711, health=0.3).score == round(0.5 * 0.3 + 0.3 * 0.8 + 0.2 * 1.0, 4)


def test_without_traffic_only_health_counts(known):
    scores.refresh([known])
    assert only(known).score == 1.0
    assert Vitals(0.3).score == 0.3


def test_while_redis_is_away_the_last_scores_stay(known, monkeypatch):
    evidence.keep_scores({4711: (Scored(0.94, 1.0, 0.8, 1.0), None)})
    scores.refresh([known])
    monkeypatch.setattr(redis, "_down_until", float("inf"))
    scores.refresh([known])
    assert only(known).score == 0.94

"""The rule for instance states, as a table."""

from datetime import UTC, datetime, timedelta

import pytest

from registry.health import Evidence, complaint_of, health_factor, next_state
from registry.states import MOVES

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(seconds):
    return None if seconds is None else NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("state", "since", "heard", "good", "complaint", "expected"),
    [
        ("NEW", 0, 0, 0, "", "NEW"),
        ("NEW", 29.9, 0, 29.9, "", "NEW"),
        ("NEW", 30, 0, 30, "", "ONLINE"),
        ("NEW", 60, 0, 29, "", "NEW"),
        ("NEW", 10, 0, 60, "", "NEW"),
        ("NEW", 60, 0, None, "", "NEW"),
        ("NEW", 60, 0, None, "db down", "DEGRADED"),
        ("NEW", 60, 30, 60, "", "OFFLINE"),
        ("NEW", 60, 29.9, 60, "", "ONLINE"),
        ("NEW", 60, None, None, "", "NEW"),
        ("ONLINE", 60, 0, 60, "", "ONLINE"),
        ("ONLINE", 60, 0, None, "db down", "DEGRADED"),
        ("ONLINE", 60, 31, 60, "", "OFFLINE"),
        ("DEGRADED", 60, 0, 14.9, "", "DEGRADED"),
        ("DEGRADED", 60, 0, 15, "", "ONLINE"),
        ("DEGRADED", 60, 0, None, "db down", "DEGRADED"),
        ("DEGRADED", 60, 31, None, "db down", "OFFLINE"),
        ("OFFLINE", 60, 0, 60, "", "NEW"),
        ("OFFLINE", 60, 0, None, "db down", "NEW"),
        ("OFFLINE", 60, 31, 60, "", "OFFLINE"),
    ],
)
def test_the_next_state(state, since, heard, good, complaint, expected):
    evidence = Evidence(state, ago(since), ago(heard), ago(good), complaint)
    found, reason = next_state(evidence, NOW)
    assert found == expected
    assert bool(reason) == (found != state)
    assert found == state or found in MOVES[state]


def test_what_left_is_offline_whatever_else_is_known():
    assert next_state(Evidence("ONLINE", ago(60), ago(0), ago(60), left=True), NOW) == ("OFFLINE", "it left")


def test_who_sends_no_heartbeats_is_never_lost():
    assert next_state(Evidence("NEW", ago(60), ago(60), None, listens=False), NOW) == ("NEW", "")


@pytest.mark.parametrize(
    ("heartbeat", "complaint"),
    [
        ({}, ""),
        ({"status": "ok", "components": {"db": "ok"}}, ""),
        ({"status": "draining"}, ""),
        ({"status": "degraded"}, "it reports degraded"),
        (
            {"status": "ok", "components": {"gpu": "degraded", "db": "down", "a": "ok"}},
            "it reports db: down, gpu: degraded",
        ),
    ],
)
def test_what_a_heartbeat_complains_of(heartbeat, complaint):
    assert complaint_of(heartbeat) == complaint


@pytest.mark.parametrize(
    ("state", "heartbeat", "factor"),
    [
        ("ONLINE", None, 1.0),
        ("ONLINE", {"components": {"db": "ok"}}, 1.0),
        ("ONLINE", {"components": {"db": "down"}}, 0.3),
        ("DEGRADED", {"status": "degraded"}, 0.3),
        ("OFFLINE", {"status": "ok"}, 0.0),
    ],
)
def test_the_health_factor(state, heartbeat, factor):
    assert health_factor(state, heartbeat) == factor

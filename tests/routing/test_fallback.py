"""What a task may fall back on, and in which order."""

import pytest

from routing.fallback import DAY_MS, NO_PLAN, dependencies_named, digest_of, independent, plan_of
from routing.snapshot import CapabilityView
from tests.routing.test_choice import ability, candidate


def kinds(asked, route=None):
    return [(step.kind, step.ability or None) for step in plan_of(asked, route or {}, "c").steps]


ALL = {"substitutes": ["d", "e"], "static": {"x": 1}, "cachedResult": True, "partial": True}


def test_substitutes_come_first():
    expected = [("substitute", "d"), ("substitute", "e"), ("cached", None), ("static", None), ("partial", None)]
    assert kinds(ALL) == expected


def test_or_what_needs_nobody_does():
    expected = [("cached", None), ("static", None), ("substitute", "d"), ("substitute", "e"), ("partial", None)]
    assert kinds({**ALL, "mode": "static_first"}) == expected


@pytest.mark.parametrize("route", [{}, {"substitutes": [], "static": None, "cachedResultMs": 0}])
def test_nothing_declared_is_no_plan(route):
    assert plan_of(None, route, "c") is NO_PLAN


def test_the_request_wins_member_by_member_over_the_route():
    route = {"substitutes": ["d"], "static": 1, "cachedResultMs": 1000}
    plan = plan_of({"static": b'{"n":1.10}', "cachedResult": False}, route, "c")
    assert [(step.kind, step.value) for step in plan.steps] == [("substitute", b""), ("static", b'{"n":1.10}')]


@pytest.mark.parametrize(
    ("asked", "route", "expected"),
    [(None, 1000, 1000), ({"cachedResult": True}, 1000, 1000), ({"cachedResult": True}, 0, DAY_MS)],
)
def test_how_old_a_result_may_be(asked, route, expected):
    assert plan_of(asked, {"cachedResultMs": route}, "c").cached_ms == expected


def test_an_ability_is_no_substitute_for_itself():
    assert kinds({"substitutes": ["c", "d", "d"]}) == [("substitute", "d")]


@pytest.mark.parametrize(
    ("details", "names"),
    [
        ({"dependency": "db"}, {"db"}),
        ({"dependency": ["db", "llm", 7]}, {"db", "llm"}),
        ({"dependency": 7}, set()),
        (None, set()),
    ],
)
def test_what_a_failed_answer_names(details, names):
    assert dependencies_named(details) == names


def test_candidates_that_need_what_failed_are_left_out():
    there = ability(
        candidate("a", capability=CapabilityView("c", dependencies=("db", "llm"))),
        candidate("b", capability=CapabilityView("c", dependencies=("llm",))),
    )
    assert [one.agent.agent_id for one in independent(there, {"db"}).candidates] == ["b"]
    assert not independent(there, {"llm"}).candidates
    assert independent(there, {"x"}) is there


def test_payloads_that_are_equal_by_value_have_one_digest():
    assert digest_of(b'{"a": 1, "b": [1.0]}') == digest_of(b'{"b":[1],"a":1.00}')
    assert len({digest_of(one) for one in (b'{"a":1}', b'{"a":"1"}', b'{"a":true}', b'{"a":[1]}', b'{"a":2}')}) == 5
    assert digest_of(b'{"a":9007199254740992}') != digest_of(b'{"a":9007199254740993}')

"""Owners move the traffic between their agents: shown, asked, changed, rolled back; never over another's change."""

import datetime as dt
import uuid

import pytest
from django.urls import reverse

from common.clock import now
from registry.models import Audit
from registry.services import namespaces
from routing.models import Route
from routing.services import routes
from tests.insight.rows import make_attempt, make_task
from tests.insight.test_catalog_pages import register
from tests.registry.test_admin import login

HOSTILE = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def space(db):
    name = f"n-{uuid.uuid4().hex[:12]}"
    namespaces.create(name, actor="test", now=now())
    register(name, "old", owner="team-a")
    register(name, "new", owner="team-a")
    register(name, "theirs", owner="team-b")
    return name


def put(space, actor="user:bob", **weights):
    candidates = [{"agent": name, **({} if weight is None else {"weight": weight})} for name, weight in weights.items()]
    route = {"ability": "t.classify", "strategy": "least_conn", "candidates": candidates}
    routes.put(space, [route], actor=actor, now=now())
    return Route.objects.get(namespace=space, ability="t.classify")


def address(route):
    return reverse("admin:routing_route_traffic", args=[route.pk])


def weights_of(route):
    return [(one.agent_id, one.weight) for one in Route.objects.get(pk=route.pk).candidates.all()]


@pytest.fixture
def owner(db):
    return login("ann", "owner", "team-a")


def call(space, agent_id, ability="t.classify", outcome="SUCCEEDED", **more):
    at = now() - dt.timedelta(minutes=5)
    task = make_task(space, at=at, ability=ability, agent_id=agent_id)
    make_attempt(task, agent_id=agent_id, outcome=outcome, **more)


def test_each_candidate_has_its_set_and_its_present_share(owner, space):
    route = put(space, old=90, new=10)
    for agent_id, outcome in (("old", "SUCCEEDED"), ("old", "SUCCEEDED"), ("new", "FAILED"), ("new", "SUCCEEDED")):
        call(space, agent_id, outcome=outcome)
    call(space, "old", ability="another")
    call(space, "old", sent_at=now() - dt.timedelta(hours=2))
    first, second = owner.get(address(route)).context["traffic"].lines
    assert (first.share, first.present, first.calls.count, first.calls.success) == (0.9, 0.5, 2, 1.0)
    assert (second.share, second.present, second.calls.count, second.calls.success) == (0.1, 0.5, 2, 0.5)
    assert (first.calls.p95_ms, second.calls.p95_ms) == (100.0, 100.0)


def test_calls_of_no_candidate_are_told_apart(owner, space):
    route = put(space, old=90, new=10)
    call(space, "old")
    call(space, "theirs")
    answer = owner.get(address(route))
    found = answer.context["traffic"]
    assert (found.calls, found.elsewhere, found.lines[0].present) == (2, 1, 0.5)
    assert "theirs" not in answer.content.decode()


def test_a_step_asks_first_and_says_what_will_happen(owner, space):
    route = put(space, old=100, new=0)
    text = owner.post(address(route), {"do": "ask", "revision": "1", "step": "1-10"}).content.decode()
    assert "About <b>10 %</b> of t.classify goes to <b>new</b> (until now 0 %)." in text
    assert weights_of(route) == [("old", 100), ("new", 0)]


def test_the_answer_changes_the_weights_on_record(owner, space):
    route = put(space, old=100, new=0)
    given = {"do": "set", "revision": "1", "weight-0": "90", "weight-1": "10"}
    text = owner.post(address(route), given, follow=True).content.decode()
    assert "old 90 %, new 10 %" in text
    assert weights_of(route) == [("old", 90), ("new", 10)]
    entry = Audit.objects.latest("id")
    assert (entry.actor, entry.action, entry.object) == ("user:ann", "route.change", "route:t.classify")
    assert [one["weight"] for one in entry.before["candidates"]] == [100, 0]
    assert [one["weight"] for one in entry.after["candidates"]] == [90, 10]


def test_one_click_goes_back_to_the_shares_before_the_last_change_of_them(owner, space):
    route = put(space, old=100, new=0)
    put(space, old=70, new=30)
    routes.put(
        space, [{"ability": "t.classify", "strategy": "score", "candidates": [{"agent": "old", "weight": 70},
         {"agent": "new", "weight": 30}]}], actor="user:bob", now=now(),
    )  # fmt: skip
    assert "<b>old</b> 100 % · <b>new</b> 0 %" in owner.get(address(route)).content.decode()
    owner.post(address(route), {"do": "back", "revision": "3"})
    assert weights_of(route) == [("old", 100), ("new", 0)]
    assert Route.objects.get(pk=route.pk).strategy == "score"
    owner.post(address(route), {"do": "back", "revision": "4"})
    assert weights_of(route) == [("old", 70), ("new", 30)]


def test_an_owner_brings_in_an_own_agent_which_gets_nothing_yet(owner, space):
    route = put(space, old=100)
    assert "<option>new/classify</option>" in owner.get(address(route)).content.decode()
    owner.post(address(route), {"do": "add", "revision": "1", "add": "new/classify"})
    assert weights_of(route) == [("old", 100), ("new", 0)]


@pytest.mark.parametrize("name", ["theirs/classify", "old/classify", "new/nothing", "", "/", HOSTILE])
def test_nobody_brings_in_what_is_not_offered(owner, space, name):
    route = put(space, old=100)
    owner.post(address(route), {"do": "add", "revision": "1", "add": name}, follow=True)
    assert weights_of(route) == [("old", 100)]


@pytest.mark.parametrize("do", ["ask", "set", "back"])
def test_whoever_comes_second_is_told_who_changed_what_and_changes_nothing(owner, space, do):
    route = put(space, old=100, new=0)
    put(space, old=50, new=50)
    given = {"do": do, "revision": "1", "step": "1-10", "weight-0": "90", "weight-1": "10"}
    text = owner.post(address(route), given, follow=True).content.decode()
    assert "bob" in text
    assert "candidates.new 0 → 50" in text
    assert weights_of(route) == [("old", 50), ("new", 50)]


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("90", "ten", "Write a whole number from 0 to 1000000"),
        ("90", "-1", "Write a whole number"),
        ("90", "1000001", "Write a whole number"),
        ("90", "٣", "Write a whole number"),
        ("90", "9" * 5000, "Write a whole number"),
        ("0", "0", "at least one candidate more than 0"),
        ("90", HOSTILE, "Write a whole number"),
    ],
)
def test_a_wrong_weight_is_named_with_the_remedy(owner, space, first, second, told):
    route = put(space, old=100, new=0)
    for do in ("ask", "set"):
        given = {"do": do, "revision": "1", "weight-0": first, "weight-1": second}
        text = owner.post(address(route), given).content.decode()
        assert told in text
        assert "<img src=x" not in text
    assert weights_of(route) == [("old", 100), ("new", 0)]


@pytest.mark.parametrize("given", [{}, {"do": "nonsense"}, {"do": "ask", "step": "9-10"}, {"do": "ask", "step": "x"}, {"do": "set", "revision": "1"},
                                   {"do": "set", "revision": "\x00"}, {"do": "back", "revision": "9" * 50}])  # fmt: skip
def test_whatever_is_posted_is_answered_and_changes_nothing(owner, space, given):
    route = put(space, old=100, new=0)
    assert owner.post(address(route), given, follow=True).status_code in (200, 403)
    assert weights_of(route) == [("old", 100), ("new", 0)]


def test_a_route_shared_with_another_team_is_looked_at_without_their_names(owner, space):
    route = put(space, old=90, theirs=10)
    text = owner.get(address(route)).content.decode()
    assert "agents of other teams" in text
    assert "theirs" not in text + owner.get("/admin/routing/route/").content.decode()
    assert 'name="weight-0"' not in text
    for do in ("ask", "set", "back", "add"):
        given = {"do": do, "add": "new/classify", "revision": "1", "step": "0-5", "weight-0": "1", "weight-1": "0"}
        assert owner.post(address(route), given).status_code == 403
    assert weights_of(route) == [("old", 90), ("theirs", 10)]


def test_a_rollback_does_not_bring_back_another_teams_agent(owner, space):
    route = put(space, old=90, theirs=10)
    put(space, old=90, new=10)
    assert 'id="roll-back"' not in owner.get(address(route)).content.decode()
    assert owner.post(address(route), {"do": "back", "revision": "2"}).status_code == 403


def test_a_route_of_another_team_is_not_there(space):
    route, stranger = put(space, old=90, new=10), login("bob", "owner", "team-b")
    assert stranger.get(address(route)).status_code == 404
    assert stranger.post(address(route), {"do": "back", "revision": "1"}).status_code == 404
    assert "t.classify" not in stranger.get("/admin/routing/route/").content.decode()
    assert "t.classify" in login("eva", "owner", "team-a").get("/admin/routing/route/").content.decode()
    assert login("sam", "support").get(address(route)).status_code == 302


def test_an_owner_is_led_from_list_and_form_to_the_traffic(owner, space):
    route = put(space, old=90, new=10)
    assert address(route) in owner.get("/admin/routing/route/").content.decode()
    assert owner.get(f"/admin/routing/route/{route.pk}/change/").url == address(route)
    form = login("op", "operator").get(f"/admin/routing/route/{route.pk}/change/").content.decode()
    assert address(route) in form


def test_the_page_takes_few_queries_and_no_inline_script(owner, space, django_assert_max_num_queries):
    route = put(space, **{f"a{n}": n for n in range(30)}, old=5, new=5)
    with django_assert_max_num_queries(12):
        answer = owner.get(address(route))
    assert "script-src 'self' 'unsafe-eval';" in answer["Content-Security-Policy"]
    assert "<script>" not in answer.content.decode()


def test_the_page_speaks_chinese(owner, space):
    route = put(space, old=90, new=10)
    text = owner.get(address(route), headers={"Accept-Language": "zh-CN"}).content.decode()
    assert "实际占比" in text
    asked = {"do": "ask", "revision": "1", "step": "1-50"}
    assert "约 <b>50 %</b>" in owner.post(address(route), asked, headers={"Accept-Language": "zh-CN"}).content.decode()

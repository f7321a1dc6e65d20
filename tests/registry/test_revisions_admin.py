"""Owners compare any two revisions, and go back to one after they were told what that does."""

import pytest
from django.urls import reverse

from registry.models import Agent, Audit
from tests.registry.test_admin import AGENT, login

HOSTILE = '"><img src=x onerror=alert(1)></script><script>alert(1)</script>'


@pytest.fixture
def revised(agent, manifest, namespace):
    """Three revisions: the second offers another capability, the third belongs to another text and version."""
    manifest["spec"]["owner"] = "team-a"
    agent("PUT", AGENT, manifest)
    manifest["spec"]["capabilities"].append({"name": "rest", "description": HOSTILE})
    manifest["metadata"]["version"] = "2"
    agent("PUT", AGENT, manifest)
    manifest["metadata"]["version"] = "3"
    agent("PUT", AGENT, manifest)
    return Agent.objects.get(namespace=namespace)


def address(revised, number):
    revision = revised.revisions.get(number=number)
    return reverse("admin:registry_revision_change", args=[revision.pk]).replace("change/", "compare/")


def text_of(browser, url):
    answer = browser.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def owner(revised):
    return login("ann", "owner", "team-a")


def test_any_two_revisions_are_compared_place_by_place(owner, revised):
    answer = owner.get(address(revised, 1) + "?to=2")
    places = [(one.place, one.before) for one in answer.context["changed"]]
    assert ("metadata.version", "1.0.0") in places
    assert ("spec.capabilities[rest]", None) in places
    assert [number for number, *_ in answer.context["others"]] == [3, 2, 1]
    assert any(line.kind == "added" and '"rest"' in line.text for line in answer.context["lines"])


def test_the_page_says_what_going_back_would_do(owner, revised):
    text = text_of(owner, address(revised, 1))
    for expected in ("Go back to revision 1?", "becomes revision 4, version 1.0.0", "<code>rest</code>", "audit log"):
        assert expected in text, expected
    assert "Go back to" not in text_of(owner, address(revised, 3) + "?to=1")


def test_looking_changes_nothing_and_restoring_makes_a_new_revision_on_record(owner, revised):
    owner.get(address(revised, 1))
    revised.refresh_from_db()
    assert revised.revision == 3
    assert owner.post(address(revised, 1), {"current": "3"}).status_code == 302
    revised.refresh_from_db()
    assert (revised.revision, revised.version) == (4, "1.0.0")
    entry = Audit.objects.filter(action="agent.restore").get()
    assert (entry.actor, entry.before, entry.after) == ("user:ann", {"revision": 3}, {"revision": 4})


def test_a_restore_that_was_asked_about_an_older_state_changes_nothing(owner, revised):
    text = owner.post(address(revised, 1), {"current": "2"}, follow=True).content.decode()
    revised.refresh_from_db()
    assert revised.revision == 3
    assert "look again" in text


def test_owners_reach_their_own_teams_revisions_only(revised):
    stranger = login("bob", "owner", "team-b")
    for call in (stranger.get, stranger.post):
        assert call(address(revised, 1), {"current": "3"}).status_code == 404
    assert login("sam", "support").get(address(revised, 1)).status_code == 302
    assert login("op", "operator").get(address(revised, 1)).status_code == 200
    revised.refresh_from_db()
    assert revised.revision == 3


@pytest.mark.parametrize("to", ["9", "x", "-1", "٣", "99999999999999", "%00"])
def test_a_revision_that_is_not_there_is_a_404(owner, revised, to):
    assert owner.get(address(revised, 1) + f"?to={to}").status_code == 404


def test_what_owners_wrote_is_text(owner, revised):
    text = text_of(owner, address(revised, 1))
    assert "<img src=x" not in text
    assert "<script>alert" not in text


def test_the_page_takes_few_queries_however_many_revisions_there_are(owner, revised, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        owner.get(address(revised, 1))


def test_the_page_speaks_chinese(owner, revised):
    text = owner.get(address(revised, 1), headers={"Accept-Language": "zh-CN"}).content.decode()
    assert "恢复此修订" in text

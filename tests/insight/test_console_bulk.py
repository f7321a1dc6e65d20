"""Bulk actions from the console: counted and asked first, then worked off in sight."""

import pytest

from common.clock import now, rfc3339
from insight.models import Bulk
from insight.services import bulk
from registry.models import Agent, Audit, Namespace
from tests.insight.rows import make_attempt, make_callback, make_task, ms
from tests.insight.test_console import login, task_url

pytestmark = pytest.mark.django_db
NEW = "/console/bulk/new"


@pytest.fixture
def support(namespace):
    return login("support", [namespace])


def failed(namespace, count=1, **fields):
    return [make_task(namespace, "FAILED", at=now() - ms(60_000), **fields) for _ in range(count)]


def asked(person, action="retry", **query):
    return person.get(NEW, {"action": action, "state": "FAILED", **query})


def begin(person, action="retry", query="state=FAILED", at=None):
    return person.post(NEW, {"action": action, "query": query, "at": at or rfc3339(now())})


def test_the_question_counts_and_touches_nothing(support, namespace):
    tasks = failed(namespace, 3)
    failed(namespace, ability="other")
    page = asked(support, ability="ticket.classify")
    assert page.context["count"] == 3
    assert "Retry 3 tasks?" in page.content.decode()
    assert task_url(tasks[0]) in page.content.decode()
    assert not Bulk.objects.filter(namespace=namespace).exists()


def test_the_question_says_how_many_may_be_done_twice(support, namespace):
    sent, _ = failed(namespace, 2)
    make_attempt(sent, outcome="FAILED", certainty="MAYBE_RAN")
    assert "could be done twice: 1 of them" in asked(support).content.decode()


def test_answered_with_yes_it_runs_and_its_page_shows_how_far_it_is(support, namespace):
    tasks = failed(namespace, 2)
    page = begin(support)["Location"]
    assert support.get(page).context["left"] == 2
    bulk.work(now())
    shown = support.get(page)
    assert (shown.context["bulk"].state, shown.context["bulk"].done, shown.context["left"]) == ("DONE", 2, 0)
    for said in ("bulk.create", "task.retry", task_url(tasks[0])):
        assert said in shown.content.decode(), said
    assert page in support.get("/console/bulk/").content.decode()


def test_what_was_accepted_after_the_count_is_not_touched(support, namespace):
    failed(namespace, 2)
    begin(support, at=rfc3339(now() - ms(120_000)))
    assert Bulk.objects.get(namespace=namespace).count == 0


def test_the_dead_letters_of_a_client_are_sent_again(support, namespace):
    dead = make_callback(failed(namespace)[0], "DEAD", errors=("503",))
    other = make_callback(failed(namespace, client="crm")[0], "DEAD", errors=("503",))
    begin(support, "redeliver", "callback=DEAD&client=shop")
    bulk.work(now())
    dead.refresh_from_db()
    other.refresh_from_db()
    assert (dead.state, other.state) == ("PENDING", "DEAD")
    dead.delete()


def test_it_is_stopped_by_its_button_once(support, namespace):
    failed(namespace, 2)
    page = begin(support)["Location"]
    assert "is stopped" in support.post(f"{page}stop", follow=True).content.decode()
    assert "ended already" in support.post(f"{page}stop", follow=True).content.decode()
    assert Audit.objects.filter(namespace=namespace, action="bulk.stop").count() == 1


@pytest.mark.parametrize("query", ["", "q=some+words", "state=FAILED&state=TIMEOUT", "q=a.b&ability=c.d"])
def test_what_a_bulk_action_cannot_look_for_is_said_and_never_begun(support, namespace, query):
    failed(namespace, ability="a.b")
    assert "Narrow the list down first" in support.get(f"{NEW}?action=retry&{query}").content.decode()
    begin(support, query=query)
    assert not Bulk.objects.filter(namespace=namespace).exists()


def test_with_several_namespaces_one_is_asked_for(namespace):
    other = Namespace.objects.create(name=f"{namespace}-b").name
    person = login("support", [namespace, other])
    failed(other)
    assert "In which namespace?" in asked(person).content.decode()
    assert asked(person, namespace=other).context["count"] == 1


def test_nobody_acts_on_anothers_namespace(support):
    assert asked(support, namespace="elsewhere").status_code == 404
    row = bulk.create("elsewhere", None, "retry", {"state": "FAILED"}, dry_run=False, actor="test", now=now())
    for url in (f"/console/bulk/{row.pk}/", "/console/bulk/x/"):
        assert support.get(url).status_code == 404
    assert support.post(f"/console/bulk/{row.pk}/stop").status_code == 404


def test_owners_have_no_bulk_actions(namespace):
    Agent.objects.create(namespace_id=namespace, agent_id="mine", owner="team-a")
    owner = login("owner", [namespace], "team-a")
    for answer in (asked(owner), begin(owner), owner.get("/console/bulk/")):
        assert answer.status_code == 404
    assert "action=retry" not in owner.get("/console/?state=FAILED").content.decode()

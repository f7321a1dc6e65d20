"""The console: who sees what, what a page holds, and what its buttons do."""

import uuid

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from common.clock import now
from insight.access import viewer_of
from insight.filters import Filter
from insight.search import find
from registry.models import Agent, Audit, Capability, Membership
from tests.insight.rows import make_attempt, make_callback, make_event, make_task

pytestmark = pytest.mark.django_db


def login(role=None, namespaces=("*",), team=""):
    user = get_user_model().objects.create_user(f"u-{uuid.uuid4().hex[:8]}", password="x")
    if role:
        Membership.objects.create(user=user, role=role, namespaces=list(namespaces), team=team)
    client = Client()
    client.force_login(user)
    client.user = user
    return client


@pytest.fixture
def support(namespace):
    return login("support", [namespace])


def found(viewer, q="", before=None):
    return find(viewer, Filter(q=q), now()).page(viewer, now(), before)


def task_url(task):
    return f"/console/tasks/{task.id}/"


def test_who_is_not_logged_in_is_sent_to_the_login():
    answer = Client().get("/console/?q=x")
    assert (answer.status_code, answer["Location"]) == (302, "/console/login/?next=%2Fconsole%2F%3Fq%3Dx")


def test_a_person_without_a_role_sees_no_task():
    assert login().get("/console/").status_code == 403


def test_the_list_shows_the_newest_tasks_of_ones_namespaces(support, namespace):
    mine, other = make_task(namespace), make_task("elsewhere")
    text = support.get("/console/").content.decode()
    assert str(mine.id) in text
    assert str(other.id) not in text


@pytest.mark.parametrize("field", ["id", "trace_id"])
def test_a_whole_id_in_the_search_box_leads_to_its_journey(support, namespace, field):
    task = make_task(namespace)
    answer = support.get("/console/", {"q": f" {getattr(task, field)} "})
    assert (answer.status_code, answer["Location"]) == (302, task_url(task))


def test_a_correlation_id_in_the_search_box_leads_to_its_journey(support, namespace):
    from routing.models import Idempotency

    task = make_task(namespace, correlation_id="order-10086")
    Idempotency.objects.create(
        namespace=namespace, client="shop", correlation_id="order-10086", task_id=task.id, digest=b"x"
    )
    assert support.get("/console/?q=order-10086")["Location"] == task_url(task)


def test_the_search_box_takes_an_ability_and_an_agent(support, namespace):
    task = make_task(namespace, ability="a.b")
    make_attempt(make_task(namespace), agent_id="echo")
    Agent.objects.create(namespace_id=namespace, agent_id="echo")
    viewer = viewer_of(support.user)
    assert [t.id for t in found(viewer, "a.b").tasks] == [task.id]
    assert [t.ability for t in found(viewer, "echo").tasks] == ["ticket.classify"]


@pytest.mark.parametrize("query", ["\x00", "\ud83d", "x" * 5000, "%", "' OR 1=1 --", "<script>", "../../etc"])
def test_odd_search_texts_find_nothing_and_break_nothing(support, query):
    answer = support.get("/console/", {"q": query.encode("utf-8", "surrogatepass")})
    assert answer.status_code == 200


def test_states_filter_the_list(support, namespace):
    failed, fine = make_task(namespace, "FAILED", error_code="REJECTED"), make_task(namespace)
    text = support.get("/console/?state=FAILED").content.decode()
    assert str(failed.id) in text
    assert str(fine.id) not in text


def test_older_pages_stay_put_while_tasks_arrive(support, namespace):
    from insight import search

    viewer = viewer_of(support.user)
    ids = [make_task(namespace).id for _ in range(search.PAGE + 3)]
    first = found(viewer)
    make_task(namespace)
    second = found(viewer, before=first.older)
    assert [t.id for t in first.tasks + second.tasks] == sorted(ids, reverse=True)


def test_a_page_takes_at_most_twelve_queries(support, namespace, django_assert_max_num_queries):
    task = make_task(namespace)
    make_attempt(task)
    make_callback(task)
    for url in (task_url(task), "/console/", "/console/?q=ticket.classify"):
        with django_assert_max_num_queries(12):
            assert support.get(url).status_code == 200


def test_an_owners_pages_take_at_most_twelve_queries(namespace, django_assert_max_num_queries):
    Agent.objects.create(namespace_id=namespace, agent_id="ticket-classifier", owner="team-a")
    task = make_task(namespace, agent_id="ticket-classifier")
    make_callback(task)
    owner = login("owner", [namespace], "team-a")
    with django_assert_max_num_queries(12):
        assert owner.get(task_url(task)).status_code == 200


def test_another_namespaces_task_is_not_there(support):
    assert support.get(task_url(make_task("elsewhere"))).status_code == 404


@pytest.mark.parametrize("id", ["x", "00000000-0000-0000-0000-00000000000", "%00"])
def test_a_malformed_id_is_not_there(support, id):
    assert support.get(f"/console/tasks/{id}/").status_code == 404


def test_an_owner_sees_the_own_agents_tasks_and_no_buttons(namespace):
    Agent.objects.create(namespace_id=namespace, agent_id="mine", owner="team-a")
    Agent.objects.create(namespace_id=namespace, agent_id="theirs", owner="team-b")
    mine, theirs = make_task(namespace, "RUNNING", agent_id="mine"), make_task(namespace, agent_id="theirs")
    owner = login("owner", [namespace], "team-a")
    assert "?ask=" not in owner.get(task_url(mine)).content.decode()
    assert owner.get(task_url(theirs)).status_code == 404
    assert owner.post(f"{task_url(mine)}cancel").status_code == 404


def test_the_journey_page_tells_cause_attempts_decision_and_deliveries(support, namespace):
    task = make_task(namespace, "FAILED", error_code="UNREACHABLE", agent_id="ticket-classifier")
    make_attempt(task, outcome="FAILED", code="UNREACHABLE", certainty="NOT_SENT")
    make_callback(task, "DEAD", errors=("HTTP 500", "HTTP 500"))
    text = support.get(task_url(task)).content.decode()
    for expected in ("could not be reached", "not sent", "OFFLINE", "HTTP 500", "?ask=retry", "?ask=redeliver"):
        assert expected in text, expected


def test_sensitive_fields_are_covered(support, namespace):
    agent = Agent.objects.create(namespace_id=namespace, agent_id="ticket-classifier")
    Capability.objects.create(agent=agent, name="classify", spec={"sensitiveFields": ["/ticketContent"]})
    text = support.get(task_url(make_task(namespace))).content.decode()
    assert "secret words" not in text
    assert "Cannot log in" in text


HOSTILE = '"><img src=x onerror=alert(1)></script><script>alert(1)</script>{{7*7}}'


def test_what_others_wrote_is_text_on_every_page(support, namespace):
    task = make_task(
        namespace, "FAILED", correlation_id=HOSTILE[:128], error_code="AGENT_FAILED", error_message=HOSTILE,
        payload={HOSTILE: HOSTILE}, ability=HOSTILE, client=HOSTILE,
    )  # fmt: skip
    make_attempt(task, outcome="FAILED", message=HOSTILE, instance_id=HOSTILE[:128])
    make_event(task, 2, "WAITING", detail={"reason": HOSTILE})
    make_callback(task, "DEAD", errors=(HOSTILE,))
    for url in (task_url(task), "/console/", f"/console/?q={HOSTILE}&state={HOSTILE}"):
        text = support.get(url).content.decode()
        assert "<img src=x" not in text
        assert "<script>alert" not in text


def test_pages_allow_no_inline_script_or_style(support, namespace):
    task = make_task(namespace)
    make_attempt(task)
    for url in (task_url(task), "/console/"):
        answer = support.get(url)
        policy = answer["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert " style=" not in answer.content.decode()
        assert "<script>" not in answer.content.decode()


def test_a_page_that_asks_again_gets_only_what_changed(support, namespace):
    task = make_task(namespace, "RUNNING")
    version = support.get(task_url(task)).context["version"]
    same = support.get(task_url(task), {"seen": version}, headers={"HX-Request": "true"})
    changed = support.get(task_url(task), {"seen": "0"}, headers={"HX-Request": "true"})
    assert (same.status_code, changed.status_code) == (204, 200)
    assert "<html" not in changed.content.decode()


def test_buttons_need_a_csrf_token(namespace):
    task = make_task(namespace, "RUNNING")
    client = login("support", [namespace])
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(client.user)
    assert strict.post(f"{task_url(task)}cancel").status_code == 403


def test_redelivering_is_done_once_and_audited(support, namespace):
    task = make_task(namespace)
    callback = make_callback(task, "DEAD", errors=("HTTP 500",))
    answer = support.post(f"{task_url(task)}redeliver")
    callback.refresh_from_db()
    assert (answer.status_code, callback.state) == (302, "PENDING")
    entry = Audit.objects.get(object=f"task:{task.id}")
    assert (entry.action, entry.actor) == ("task.callback.redeliver", f"user:{support.user.username}")


@pytest.mark.parametrize(
    ("action", "before", "after"), [("cancel", "RECEIVED", "CANCELLED"), ("retry", "FAILED", "RECEIVED")]
)
def test_cancel_and_retry_move_the_task_and_are_audited(support, namespace, action, before, after):
    task = make_task(namespace, before)
    assert support.post(f"{task_url(task)}{action}").status_code == 302
    task.refresh_from_db()
    assert task.state == after
    assert Audit.objects.get(object=f"task:{task.id}").action == f"task.{action}"


def test_a_button_pressed_too_late_says_so_and_changes_nothing(support, namespace):
    task = make_task(namespace)
    make_callback(task, "PENDING", errors=())
    text = support.post(f"{task_url(task)}redeliver", follow=True).content.decode()
    assert "no longer possible" in text
    assert not Audit.objects.filter(object=f"task:{task.id}").exists()


def test_an_unknown_button_is_not_there(support, namespace):
    assert support.post(f"{task_url(make_task(namespace))}explode").status_code == 404


def test_pages_speak_chinese(support, namespace):
    task = make_task(namespace, "FAILED", error_code="TIMEOUT")
    text = support.get(task_url(task), headers={"Accept-Language": "zh-CN"}).content.decode()
    assert 'lang="zh-hans"' in text
    assert "时间线" in text
    assert "规定时间" in text

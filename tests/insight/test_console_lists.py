"""The console's lists: filters as links, saved views, words of an error, callbacks by state, traces as trees."""

import pytest
from django.utils.http import urlencode

from common.clock import now
from insight import callback_list
from insight.traces import drawn
from registry.models import Agent
from routing.models import Task
from tests.insight.rows import make_attempt, make_callback, make_task, ms
from tests.insight.test_console import login, task_url

pytestmark = pytest.mark.django_db


@pytest.fixture
def support(namespace):
    return login("support", [namespace])


def listed(person, **query):
    return [task.id for task in person.get("/console/", query).context["page"].tasks]


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"ability": "a.b"}, {"ability": "a.b"}),
        ({"client": "crm"}, {"client": "crm"}),
        ({"error": "REJECTED"}, {"state": "FAILED", "error_code": "REJECTED"}),
        ({"state": "FAILED"}, {"state": "FAILED", "error_code": "TIMEOUT"}),
    ],
)
def test_a_filter_is_a_link_that_narrows_the_list_down(support, namespace, query, fields):
    make_task(namespace)
    wanted = make_task(namespace, **fields)
    assert listed(support, **query) == [wanted.id]


def test_the_list_is_narrowed_down_to_an_agent_and_to_a_time(support, namespace):
    Agent.objects.create(namespace_id=namespace, agent_id="ticket-classifier")
    make_task(namespace)
    old, new = make_task(namespace, at=now() - ms(7_200_000)), make_task(namespace, at=now() - ms(1000))
    make_attempt(old)
    make_attempt(new)
    assert listed(support, agent="ticket-classifier") == [new.id, old.id]
    assert listed(support, agent="ticket-classifier", within="1h") == [new.id]


def test_tasks_are_listed_by_the_state_of_their_callback(support, namespace):
    dead, fine = make_task(namespace), make_task(namespace)
    make_callback(dead, "DEAD", errors=("503",))
    make_callback(fine)
    assert listed(support, callback="DEAD") == [dead.id]


def test_another_namespaces_tasks_stay_hidden_whatever_the_filter_says(support):
    make_task("elsewhere", ability="a.b")
    assert listed(support, ability="a.b", namespace="elsewhere") == []


@pytest.mark.parametrize("name", ["namespace", "ability", "agent", "client", "error", "callback", "within", "state"])
def test_odd_filters_break_nothing(support, name):
    for value in ("\x00", "%", "x" * 5000, "'"):
        assert support.get("/console/", {name: value}).status_code == 200


def test_words_of_an_error_and_its_code_are_found(support, namespace):
    broken = make_task(namespace, "FAILED", error_code="AGENT_FAILED", error_message="Quota of the model is used up")
    make_task(namespace, "FAILED", error_code="TIMEOUT", error_message="too slow")
    for query in ("model is USED", "AGENT_FAILED"):
        assert listed(support, q=query) == [broken.id]


@pytest.mark.parametrize("words", ["100%", "a_b", "a\\b"])
def test_words_are_looked_for_as_they_are_written(support, namespace, words):
    said = make_task(namespace, "FAILED", error_code="AGENT_FAILED", error_message=f"it said {words}!")
    make_task(namespace, "FAILED", error_code="AGENT_FAILED", error_message="it said 1000, axb, ab")
    assert listed(support, q=words) == [said.id]


def test_a_trace_of_several_tasks_leads_to_its_tree(support, namespace):
    root = make_task(namespace, trace_id="t-1")
    make_task(namespace, trace_id="t-1", parent_id=root.id)
    answer = support.get("/console/?q=t-1")
    assert (answer.status_code, answer["Location"]) == (302, "/console/traces/t-1/")


def test_a_trace_shows_each_task_under_the_one_that_asked_for_it(support, namespace):
    root = make_task(namespace, trace_id="t-1", ability="one")
    child = make_task(namespace, trace_id="t-1", ability="two", parent_id=root.id)
    make_task(namespace, trace_id="t-1", ability="other")
    make_task(namespace, trace_id="t-1", ability="three", parent_id=child.id)
    page = support.get("/console/traces/t-1/")
    order = [(node.task.ability, node.depth) for node in page.context["trace"].nodes]
    assert order == [("one", 0), ("two", 1), ("three", 2), ("other", 0)]
    assert task_url(child) in page.content.decode()


def test_a_trace_is_drawn_to_scale_and_its_bars_stay_on_it(namespace):
    start = make_task(namespace, trace_id="t-1").created_at
    make_task(namespace, trace_id="t-1", at=start + ms(800))
    found = drawn(Task.objects.all(), "t-1", start)
    assert found.ms == 1000
    assert [(node.left, node.width) for node in found.nodes] == [(0, 20), (80, 20)]


def test_a_trace_that_one_may_not_see_is_not_there(support):
    make_task("elsewhere", trace_id="t-1")
    assert support.get("/console/traces/t-1/").status_code == 404


def save(client, name, query="state=FAILED", **more):
    return client.post("/console/views/", {"name": name, "query": query, **more}, follow=True).content.decode()


def test_a_view_is_saved_shown_and_forgotten_by_its_owner_alone(support, namespace):
    assert "★ My failures" in save(support, "My failures", "state=FAILED&ability=a.b")
    assert "★ My failures" not in login("support", [namespace]).get("/console/").content.decode()
    assert "★ My failures" not in save(support, "My failures", forget="1")


def test_a_saved_view_keeps_known_filters_only(support):
    save(support, "v", "state=FAILED&state=NONSENSE&before=x&next=//evil.example")
    assert support.get("/console/").context["views"][0].query == "state=FAILED"


def test_only_so_many_views_are_kept(support, monkeypatch):
    monkeypatch.setattr("insight.services.views.MOST", 1)
    save(support, "one")
    text = save(support, "two")
    assert "★ two" not in text
    assert "forget one first" in text
    assert "★ one" in save(support, "one", "state=TIMEOUT")


def callbacks(person, **query):
    return person.get("/console/callbacks/", query)


def test_callbacks_are_listed_by_state_with_their_last_answer(support, namespace):
    dead = make_callback(make_task(namespace), "DEAD", errors=("HTTP 500", "HTTP 503 gone mad"))
    waiting = make_callback(make_task(namespace), "PENDING", errors=("HTTP 500",))
    make_callback(make_task(namespace))
    text = callbacks(support, state="DEAD").content.decode()
    assert "gone mad" in text
    assert [row.callback.id for row in callbacks(support, state="DEAD").context["page"].rows] == [dead.id]
    (row,) = callbacks(support, state="PENDING").context["page"].rows
    assert (row.callback.id, row.next_at, row.redeliverable) == (waiting.id, waiting.due_at, False)


def test_pages_of_callbacks_stay_put_while_more_arrive(support, namespace, monkeypatch):
    monkeypatch.setattr(callback_list, "PAGE", 2)
    ago = [now() - ms(1000 * seconds) for seconds in (4, 3, 2, 1)]
    made = [make_callback(make_task(namespace, at=at), "DEAD", errors=("503",)).id for at in ago[:3]]
    first = callbacks(support, state="DEAD").context
    make_callback(make_task(namespace, at=ago[3]), "DEAD", errors=("503",))
    second = support.get(f"/console/callbacks/?{first['older']}").context
    assert [row.callback.id for row in first["page"].rows + second["page"].rows] == sorted(made, reverse=True)


def test_a_page_of_rare_callbacks_goes_on_where_the_tasks_that_were_looked_at_end(support, namespace, monkeypatch):
    monkeypatch.setattr(callback_list, "COUNTED", 3)
    ago = [now() - ms(1000 * seconds) for seconds in range(9, 0, -1)]
    tasks = [make_task(namespace, at=at) for at in ago]
    made = [make_callback(tasks[0]).id, make_callback(tasks[1]).id]
    found, page = [], callbacks(support, state="DELIVERED").context
    for _ in range(9):
        found += [row.callback.id for row in page["page"].rows]
        if page["older"] is None:
            break
        page = support.get(f"/console/callbacks/?{page['older']}").context
    assert found == made[::-1]


def test_one_callback_is_redelivered_from_the_list_and_the_list_shown_again(support, namespace):
    task = make_task(namespace)
    callback = make_callback(task, "DEAD", errors=("503",))
    answer = support.post(f"{task_url(task)}redeliver", {"back": "/console/callbacks/?state=DEAD"})
    callback.refresh_from_db()
    assert (answer["Location"], callback.state) == ("/console/callbacks/?state=DEAD", "PENDING")


def test_a_button_leads_back_to_no_other_site(support, namespace):
    task = make_task(namespace, "RECEIVED")
    answer = support.post(f"{task_url(task)}cancel", {"back": "//evil.example/"})
    assert answer["Location"] == task_url(task)


def test_owners_see_their_agents_callbacks_and_no_button(namespace):
    Agent.objects.create(namespace_id=namespace, agent_id="mine", owner="team-a")
    mine, theirs = make_task(namespace, agent_id="mine"), make_task(namespace, agent_id="theirs")
    for task in (mine, theirs):
        make_attempt(task, agent_id=task.agent_id)
    mine = make_callback(mine, "DEAD", errors=("503",))
    make_callback(theirs, "DEAD", errors=("503",))
    page = callbacks(login("owner", [namespace], "team-a"), state="DEAD")
    assert [row.callback.id for row in page.context["page"].rows] == [mine.id]
    assert "redeliver" not in page.content.decode()


@pytest.mark.parametrize("query", [{"state": "NONSENSE"}, {"before": "x"}, {"client": "\x00"}, {"namespace": "none"}])
def test_odd_queries_for_callbacks_break_nothing(support, query):
    assert support.get(f"/console/callbacks/?{urlencode(query)}").status_code == 200

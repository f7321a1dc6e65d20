"""What holds on every page: what others wrote is text, few queries, nothing inline, both languages."""

import json
from itertools import pairwise

import pytest

from common.clock import now
from insight.models import Alert, SavedView
from insight.services import bulk
from registry.models import Namespace
from registry.services import evidence
from routing.services import routes
from tests.insight.rows import make_attempt, make_callback, make_event, make_task, ms
from tests.insight.test_catalog_pages import add_instance, register, space  # noqa: F401 - fixture
from tests.insight.test_console import HOSTILE, login

pytestmark = pytest.mark.django_db
H = HOSTILE

PAGES = {
    "tasks": "/console/",
    "searched": "/console/?q={hostile}",
    "narrowed": "/console/?ability={hostile}&client={hostile}&agent=a1&error={hostile}&within=1h&callback=DEAD",
    "journey": "/console/tasks/{task}/",
    "trace": "/console/traces/t-1/",
    "callbacks": "/console/callbacks/?client={hostile}",
    "dead letters": "/console/callbacks/?state=DEAD",
    "bulk": "/console/bulk/{bulk}/",
    "bulk list": "/console/bulk/",
    "bulk question": "/console/bulk/new?action=retry&ability={hostile}&state=FAILED",
    "dashboard by ability": "/console/dashboards/?namespace={namespace}",
    "dashboard by client": "/console/dashboards/?by=client&within=1h",
    "dashboard by agent": "/console/dashboards/?by=agent&within=7d",
    "who": "/console/who/?namespace={namespace}&ability={hostile}&client={hostile}&sessionId={hostile}",
    "who answered": "/console/who/?namespace={namespace}&ability={hostile}",
    "catalog": "/console/catalog/?q={hostile}",
    "ability": "/console/catalog/ability/?name={hostile}",
    "agent": "/console/agents/{namespace}/a1/",
    "alerts": "/console/alerts/",
}


@pytest.fixture
def filled(space, monkeypatch):  # noqa: F811
    """A namespace in which every text that others write is hostile, and somebody of support."""
    monkeypatch.setattr("routing.snapshot.cache.Watcher._refresh", lambda watcher: None)
    at, person = now() - ms(60_000), login("support", [space])
    capability = {"name": "work", "description": H, "requestSample": {"text": H}}
    row = add_instance(register(space, "a1", "work", displayName=H, tags=[H[:64]], capability=capability), reason=H)
    evidence.probed(row.pk, False, 40.0, H, now(), "p1")
    routes.put(
        space, [{"ability": H, "candidates": [{"agent": "a1", "capability": "work"}]}], actor="t", now=at
    )  # fmt: skip
    task = make_task(
        space, "FAILED", at=at, correlation_id=H[:128], error_code="AGENT_FAILED", error_message=H, ability=H,
        payload={H: H}, client=H, trace_id="t-1", agent_id=H[:128], session_id=H[:128],
        progress={"percent": 5, "message": H},
    )  # fmt: skip
    make_task(space, ability=H, client=H, trace_id="t-1", parent_id=task.id, at=at, agent_id="a1", result={"data": H})
    make_attempt(task, outcome="FAILED", message=H, instance_id=H[:128], agent_id="a1")
    make_event(task, 2, "WAITING", detail={"reason": H, "decision": {"candidates": [{"agentId": H, "rejected": H}]}})
    callback = make_callback(task, "DEAD", errors=(H,))
    callback.url = f"https://shop.example/{H}"
    callback.save()
    Alert.objects.create(
        namespace=space, kind="CALLBACK_DEAD", severity="warning", subject=f"client:{H}", raised_at=at, seen_at=at,
        details={"count": 3, "client": H},
    )  # fmt: skip
    SavedView.objects.create(user=person.user, name=H[:60], query="state=FAILED")
    begun = bulk.create(space, None, "retry", {"ability": H}, dry_run=False, actor=f"user:{H}", now=now())
    yield person, {"task": task.id, "bulk": begun.pk, "namespace": space}
    evidence.forget(row.pk)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_foreign_text_as_text_with_few_queries(filled, name, django_assert_max_num_queries):
    person, ids = filled
    person.get("/console/catalog/")  # reads the snapshot that every process keeps
    path, _, query = PAGES[name].format(hostile="HOSTILE", **ids).partition("?")
    given = dict(part.split("=") for part in query.split("&")) if query else {}
    with django_assert_max_num_queries(12):
        answer = person.get(path, {key: H if value == "HOSTILE" else value for key, value in given.items()})
    text = answer.content.decode()
    assert answer.status_code == 200
    for odd in ("<img src=x", "<script>", " style="):
        assert odd not in text
    assert "unsafe" not in answer["Content-Security-Policy"]


def test_the_pages_are_linked_to_each_other(filled):
    person, ids = filled
    text = person.get("/console/").content.decode()
    for page in ("callbacks/", "bulk/", "dashboards/", "catalog/", "who/", "alerts/"):
        assert f'href="/console/{page}"' in text
    assert "/console/traces/t-1/" in person.get(f"/console/tasks/{ids['task']}/").content.decode()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("callbacks/", "没有死信"),
        ("bulk/", "还没有批量操作"),
        ("dashboards/", "此时段内没有任务"),
        ("who/", "会分给谁"),
        ("bulk/new?action=retry", "请先缩小列表范围"),
    ],
)
def test_empty_pages_speak_chinese(space, path, said):  # noqa: F811
    path = f"{path}?state=DEAD" if path == "callbacks/" else path
    answer = login("support", [space]).get(f"/console/{path}", headers={"Accept-Language": "zh-CN"})
    assert said in answer.content.decode()


def figures(person, **query):
    return person.get("/console/dashboards/", query).context["found"]


def test_a_dashboard_counts_and_measures_by_key(space):  # noqa: F811
    person, at = login("support", [space]), now() - ms(60_000)
    good, bad = make_task(space, at=at), make_task(space, "FAILED", at=at, error_code="UNREACHABLE", client="crm")
    make_attempt(good, sent_at=at + ms(40), received_at=at + ms(50), ended_at=at + ms(150))
    make_attempt(bad, sent_at=at + ms(100), received_at=None, outcome="FAILED", certainty="NOT_SENT")
    total = figures(person).total
    assert (total.tasks, total.completion, total.delivery) == (2, 0.5, 0.5)
    assert (total.queued, total.receipt, total.run) == ((40, 100), (10, 10), (100, 100))
    rows = dict(figures(person, by="client").rows())
    assert (rows["shop"].completion, rows["crm"].completion) == (1, 0)


def test_a_dashboard_says_how_long_the_oldest_waits_already(space):  # noqa: F811
    make_task(space, "RECEIVED", at=now() - ms(600_000))
    total = figures(login("support", [space])).total
    assert total.waiting == 1
    assert total.longest >= 600_000


def test_a_dashboard_looks_at_its_time_and_namespaces_only(space):  # noqa: F811
    Namespace.objects.create(name=f"{space}-b")
    make_task(space, at=now() - ms(7_200_000))
    make_task(f"{space}-b", at=now() - ms(60_000))
    person = login("support", [space])
    assert [figures(person, within=span).total.tasks for span in ("1h", "24h")] == [0, 1]
    assert person.get(f"/console/dashboards/?namespace={space}-b").status_code == 404


def test_a_chart_has_a_value_for_each_step_of_time(space):  # noqa: F811
    make_task(space, at=now() - ms(3_000_000))
    make_task(space, at=now() - ms(60_000))
    chart = json.loads(login("support", [space]).get("/console/dashboards/?within=1h").context["charts"][0]["json"])
    times, accepted, *_ = chart["data"]
    assert {later - earlier for earlier, later in pairwise(times)} == {60}
    assert sum(accepted) == 2

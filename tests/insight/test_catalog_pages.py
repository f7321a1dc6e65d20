"""The console's catalog and agent pages: who sees what, what they hold, and that foreign text stays text."""

import json

import pytest

from common.clock import now
from registry.models import Agent, Instance, StateChange
from registry.services import evidence, manifests, namespaces
from routing import breaker
from routing.breaker.rule import Circuit
from routing.services import routes
from tests.insight.rows import NOW, make_attempt, make_task, ms
from tests.insight.test_console import HOSTILE, login

pytestmark = pytest.mark.django_db
BY = {"actor": "test", "now": NOW}


def register(namespace, agent_id="ticket-classifier", name="classify", **spec):
    capability = {
        "name": name, "description": "Sorts tickets; 对工单进行分类", "inputSchema": {"text": "string"},
        "outputSchema": {"category": "string"}, "requestSample": {"text": "it's broken"}, **spec.pop("capability", {}),
    }  # fmt: skip
    manifest = {
        "apiVersion": "agent-reach/v1", "kind": "AgentManifest", "metadata": {"name": agent_id, "version": "2.1.0"},
        "spec": {"owner": "team-a", "tags": ["nlp"], "capabilities": [capability], **spec},
    }  # fmt: skip
    manifests.put(namespace, agent_id, json.dumps(manifest).encode(), "application/json", strict=False, **BY)
    return Agent.objects.get(namespace=namespace, agent_id=agent_id)


def add_instance(agent, instance_id="i-1", state="ONLINE", reason="5 good results in a row"):
    row = Instance.objects.create(
        agent=agent, instance_id=instance_id, state=state, state_since=NOW, reason=reason, registered_at=NOW
    )
    StateChange.objects.create(instance=row, at=NOW, from_state="NEW", to_state=state, reason=reason)
    return row


@pytest.fixture
def space(db):
    import uuid

    name = f"n-{uuid.uuid4().hex[:12]}"
    namespaces.create(name, **BY)
    return name


@pytest.fixture
def support(space):
    return login("support", [space])


def catalog(client, **query):
    return client.get("/console/catalog/", query).content.decode()


def test_who_is_not_logged_in_is_sent_to_the_login(client):
    for url in ("/console/catalog/", "/console/catalog/ability/?name=x", "/console/agents/a/b/"):
        assert client.get(url).status_code == 302


def test_abilities_are_found_by_words_in_both_languages_and_by_tag(support, space):
    register(space)
    register(space, "other", "translate", capability={"description": "Translates"}, tags=["text"])
    for query in ({"q": "sorts"}, {"q": "工单分类"}, {"tag": "nlp"}):
        text = catalog(support, **query)
        assert "name=classify" in text
        assert "name=translate" not in text


def test_a_route_under_another_name_is_shown_with_its_agents_state_and_score(support, space):
    add_instance(register(space))
    routes.put(
        space,
        [{"ability": "ticket.sort", "candidates": [{"agent": "ticket-classifier", "capability": "classify"}]}],
        **BY,
    )
    text = catalog(support, q="ticket.sort")
    for expected in (
        "name=ticket.sort",
        "own route",
        "s-online",
        "1.00",
        f"/console/agents/{space}/ticket-classifier/",
    ):
        assert expected in text, expected


def test_an_ability_shows_schemas_sample_and_a_command_that_is_quoted_for_a_shell(support, space):
    register(space)
    response = support.get("/console/catalog/ability/", {"namespace": space, "name": "classify"})
    assert response.status_code == 200
    assert "it's broken" in response.context["sample"]
    assert response.context["curl"].endswith(
        """-d '{"target": {"ability": "classify"}, "payload": {"text": "it'"'"'s broken"}}'"""
    )
    assert "category" in response.context["output"]


def test_an_agent_page_shows_state_reason_score_parts_probes_and_changes(support, space):
    row = add_instance(register(space), state="DEGRADED", reason="P95 is 900 ms")
    evidence.probed(row.pk, True, 12.0, "", now(), "p1")
    evidence.probed(row.pk, False, 40.0, "HTTP 503", now(), "p1")
    text = support.get(f"/console/agents/{space}/ticket-classifier/").content.decode()
    for expected in ("s-degraded", "P95 is 900 ms", "Probes: 2, failed 1", "HTTP 503", "no traffic", "State changes"):
        assert expected in text, expected
    evidence.forget(row.pk)


@pytest.mark.parametrize(("language", "words"), [("en", "no task is sent here until"), ("zh-hans", "熔断器")])
def test_an_agent_page_shows_an_open_breaker(support, space, monkeypatch, language, words):
    add_instance(register(space))
    at = now().timestamp()
    circuits = {breaker.Key(space, "ticket-classifier", "i-1"): Circuit(opened=at, until=at + 3600)}
    monkeypatch.setattr(breaker.Breakers, "open", lambda self, namespace: circuits)
    page = support.get(f"/console/agents/{space}/ticket-classifier/", HTTP_ACCEPT_LANGUAGE=language)
    assert words in page.content.decode()


def test_an_agent_page_shows_the_last_hours_calls(support, space):
    register(space)
    task = make_task(space, at=now() - ms(60_000))
    make_attempt(task)
    make_attempt(task, 2, outcome="FAILED", code="UNREACHABLE")
    text = support.get(f"/console/agents/{space}/ticket-classifier/").content.decode()
    for expected in ("50.0 %", "UNREACHABLE</span> × 1", "shop × 2"):
        assert expected in text, expected


def test_pages_take_at_most_twelve_queries(support, space, django_assert_max_num_queries, monkeypatch):
    # What watches in the background sees nothing of this test's transaction, and would have the namespace forgotten.
    monkeypatch.setattr("routing.snapshot.cache.Watcher._refresh", lambda watcher: None)
    for number in range(8):
        agent = register(space, f"agent-{number}", f"work-{number}")
        for instance in range(3):
            add_instance(agent, f"i-{instance}")
    catalog(support)  # reads the snapshot that every process keeps
    for url in (
        f"/console/catalog/?namespace={space}", f"/console/catalog/?namespace={space}&q=sorts&tag=nlp",
        f"/console/catalog/ability/?namespace={space}&name=work-1", f"/console/agents/{space}/agent-1/",
    ):  # fmt: skip
        with django_assert_max_num_queries(12):
            assert support.get(url).status_code == 200


def test_an_owner_sees_the_own_teams_abilities_and_agents_only(space):
    register(space)
    register(space, "theirs", "secret-work", owner="team-b")
    owner = login("owner", [space], "team-a")
    text = catalog(owner)
    assert "name=classify" in text
    assert "secret-work" not in text
    assert owner.get(f"/console/agents/{space}/theirs/").status_code == 404
    assert owner.get("/console/catalog/ability/", {"name": "secret-work"}).status_code == 404


@pytest.mark.parametrize(
    "url", ["catalog/?namespace=elsewhere", "catalog/ability/?name=none", "agents/elsewhere/a/", "agents/%00/%00/"]
)
def test_what_one_may_not_see_is_not_there(support, space, url):
    assert support.get(f"/console/{url}").status_code == 404


def test_many_abilities_are_paged(support, space):
    from insight.catalog import PAGE

    for number in range(PAGE + 1):
        register(space, f"agent-{number}", f"work-{number:03}")
    first = support.get("/console/catalog/", {"namespace": space})
    second = support.get(f"/console/catalog/?{first.context['next']}")
    names = [row.entry.ability for page in (first, second) for row in page.context["page"].rows]
    assert names == [f"work-{number:03}" for number in range(PAGE + 1)]


def test_what_others_wrote_is_text_on_every_page(support, space):
    capability = {"name": "work", "description": HOSTILE, "requestSample": {"text": HOSTILE}}
    agent = register(space, "a1", "work", displayName=HOSTILE, tags=[HOSTILE[:64]], capability=capability)
    row = add_instance(agent, reason=HOSTILE)
    evidence.probed(row.pk, False, 40.0, HOSTILE, now(), "p1")
    routes.put(space, [{"ability": HOSTILE, "candidates": [{"agent": "a1", "capability": "work"}]}], **BY)
    urls = [
        ("/console/catalog/", {"q": HOSTILE}), ("/console/catalog/", {"tag": HOSTILE[:64]}),
        ("/console/catalog/ability/", {"name": HOSTILE}), (f"/console/agents/{space}/a1/", {"after": ""}),
    ]  # fmt: skip
    for url, query in urls:
        response = support.get(url, query)
        text = response.content.decode()
        assert response.status_code == 200
        assert HOSTILE[:20] not in text
        for odd in ("<img src=x", "<script>alert", " style="):
            assert odd not in text
        assert "unsafe" not in response["Content-Security-Policy"]
    evidence.forget(row.pk)


def test_pages_speak_chinese(support, space):
    add_instance(register(space))
    for url in (
        "/console/catalog/",
        "/console/catalog/ability/?name=classify",
        f"/console/agents/{space}/ticket-classifier/",
    ):
        text = support.get(url, headers={"Accept-Language": "zh-CN"}).content.decode()
        assert 'lang="zh-hans"' in text
        assert "能力目录" in text

"""Owners see and change their team's agents; operators everything; nobody the audit log."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client as Browser
from django.urls import reverse

from common.clock import now
from registry.models import Agent, Audit, Client, Credential, Instance, Membership, Revision
from registry.services import clients, evidence, users
from registry.services.evidence import OK, Seen

PASSWORD = "a long password"
AGENT = "/v1/agents/a1"


def login(name, role, team="", namespaces=None):
    users.put(name, role=role, team=team, namespaces=namespaces, password=PASSWORD, actor="test", now=now())
    browser = Browser()
    assert browser.login(username=name, password=PASSWORD)
    return browser


@pytest.fixture
def registered(agent, manifest, namespace):
    manifest["spec"]["owner"] = "team-a"
    manifest["spec"]["displayName"] = "<script>alert(1)</script>"
    agent("PUT", AGENT, manifest)
    manifest["metadata"]["version"] = "2"
    agent("PUT", AGENT, manifest)
    agent("PUT", AGENT + "/instances/i1", {"invokeUrl": "http://127.0.0.1:9/x"})
    return Agent.objects.get(namespace=namespace)


def page(model, kind="changelist", *args):
    return reverse(f"admin:registry_{model}_{kind}", args=args)


PAGES = ["namespace", "client", "credential", "agent", "revision", "instance", "audit", "membership"]


@pytest.mark.parametrize("model", PAGES)
def test_operators_see_every_list(registered, model):
    answer = login("op", "operator").get(page(model) + "?q=a1")
    assert answer.status_code == 200


@pytest.mark.parametrize("model", ["namespace", "client", "credential", "audit", "membership"])
def test_owners_see_no_operators_page(registered, model):
    assert login("ann", "owner", "team-a").get(page(model)).status_code == 403


@pytest.mark.parametrize("model", PAGES)
def test_support_sees_none_of_it(registered, model):
    assert login("sam", "support").get(page(model)).status_code == 302


def rows_of(registered):
    instance = registered.instances.get()
    revision = registered.revisions.last()
    return [("agent", registered.pk), ("instance", instance.pk), ("revision", revision.pk)]


def test_owners_see_their_own_and_nothing_else(registered, namespace):
    mine, other = login("ann", "owner", "team-a"), login("bob", "owner", "team-b")
    elsewhere = login("eve", "owner", "team-a", ["another-namespace"])
    for model, pk in rows_of(registered):
        assert mine.get(page(model, "change", pk)).status_code == 200
        for stranger in (other, elsewhere):
            assert stranger.get(page(model, "change", pk)).status_code == 302
            assert page(model, "change", pk) not in stranger.get(page(model)).content.decode()
        assert page(model, "change", pk) in mine.get(page(model)).content.decode()


def test_text_of_owners_is_shown_as_text(registered):
    content = login("ann", "owner", "team-a").get(page("agent", "change", registered.pk)).content
    assert b"<script>alert(1)" not in content
    assert b"&lt;script&gt;alert(1)" in content


def run(browser, model, name, *pks):
    return browser.post(page(model), {"action": name, "_selected_action": pks}, follow=True)


def test_maintenance_is_the_owners_to_begin_and_is_audited(registered):
    run(login("bob", "owner", "team-b"), "agent", "begin_maintenance", registered.pk)
    registered.refresh_from_db()
    assert registered.maintenance is False
    run(login("ann", "owner", "team-a"), "agent", "begin_maintenance", registered.pk)
    registered.refresh_from_db()
    assert registered.maintenance is True
    entry = Audit.objects.latest("id")
    assert (entry.actor, entry.action, entry.object) == ("user:ann", "agent.maintenance", "agent:a1")


def test_maintenance_begins_from_the_agents_page_too(registered):
    address = page("agent", "change", registered.pk)
    answer = login("ann", "owner", "team-a").post(address, {"registry_agent_begin_maintenance_here": "1", **no_rows()})
    registered.refresh_from_db()
    assert (answer.status_code, registered.maintenance) == (302, True)


def no_rows():
    return {
        f"{prefix}-{kind}_FORMS": "0"
        for prefix in ("instances", "revisions", "changes")
        for kind in ("TOTAL", "INITIAL")
    }


def test_an_instance_can_be_taken_out(registered):
    run(login("ann", "owner", "team-a"), "instance", "take_out", Instance.objects.get(agent=registered).pk)
    assert Instance.objects.get(agent=registered).left_at is not None


def test_nobody_edits_an_agent_or_the_audit_log(registered):
    browser = login("op", "operator")
    browser.post(page("agent", "change", registered.pk), {"owner": "mine", "_save": "1", **no_rows()})
    registered.refresh_from_db()
    assert registered.owner == "team-a"
    entry = Audit.objects.latest("id")
    assert browser.post(page("audit", "delete", entry.pk), {"post": "yes"}).status_code == 403
    assert browser.post(page("audit", "change", entry.pk), {"actor": "x"}).status_code == 403


def test_a_client_is_made_with_its_key_shown_once(namespace):
    browser = login("op", "operator")
    form = {"namespace": namespace, "name": "shop", "abilities": '["*"]', "limits": '{"burst": 5}',
            "callback_schedule": "standard", "scopes": ["tasks:write"]}  # fmt: skip
    shown = browser.post(page("client", "add"), form, follow=True).content.decode()
    client = Client.objects.get(namespace=namespace, name="shop")
    key = Credential.objects.get(client=client)
    assert key.access_key in shown
    assert "rck_" in shown
    assert key.scopes == ["tasks:write"]
    assert "rck_" not in browser.get(page("client", "change", client.pk)).content.decode()


def test_a_bad_limit_is_refused_with_its_name(namespace):
    form = {"namespace": namespace, "name": "shop", "abilities": '["*"]', "limits": '{"burst": true}',
            "callback_schedule": "standard", "scopes": ["tasks:write"]}  # fmt: skip
    shown = login("op", "operator").post(page("client", "add"), form)
    assert "/limits/burst" in shown.content.decode()
    assert not Client.objects.filter(namespace=namespace).exists()


def test_a_client_can_be_disabled(namespace):
    client = clients.create(namespace, "shop", actor="test", now=now()).client
    browser, address = login("op", "operator"), page("client", "change", client.pk)
    seen = browser.get(address).context["adminform"].form["seen"].initial
    browser.post(address, {"abilities": '["*"]', "limits": "{}", "callback_schedule": "long", "seen": seen})
    client.refresh_from_db()
    assert (client.enabled, client.callback_schedule) == (False, "long")
    assert Audit.objects.latest("id").action == "client.change"


def test_a_key_can_be_revoked(namespace):
    client = clients.create(namespace, "shop", actor="test", now=now()).client
    run(login("op", "operator"), "credential", "revoke", Credential.objects.get(client=client).pk)
    assert Credential.objects.get(client=client).revoked_at is not None


def test_secrets_are_on_no_page(namespace):
    made = clients.create(namespace, "shop", actor="test", now=now())
    row = Credential.objects.get(client=made.client)
    content = login("op", "operator").get(page("credential", "change", row.pk)).content.decode()
    assert row.key_hash not in content
    assert bytes(row.secret_key).decode() not in content


def test_a_person_gets_a_role_and_a_password(db):
    form = {"name": "kim", "role": "owner", "team": "team-a", "namespaces": '["*"]'}
    shown = login("op", "operator").post(page("membership", "add"), form, follow=True)
    assert shown.status_code == 200
    assert Membership.objects.get(user__username="kim").role == "owner"
    assert get_user_model().objects.get(username="kim").is_staff


def test_lists_do_not_ask_for_each_row(registered, agent, django_assert_max_num_queries):
    browser = login("ann", "owner", "team-a")
    for index in range(20):
        agent("PUT", f"{AGENT}/instances/x{index}", {"invokeUrl": "http://127.0.0.1:9/x"})
    with django_assert_max_num_queries(8):
        browser.get(page("instance"))
    assert Revision.objects.filter(agent=registered).count() == 2


def test_an_owner_sees_how_many_answers_do_not_fit(registered):
    one = registered.instances.get()
    evidence.called(Seen(one.pk, OK, 5.0, "", now(), fits) for fits in (True, True, False))
    browser = login("olga", "owner", "team-a", ["*"])
    for place in (page("agent", "change", registered.pk), page("instance", "change", one.pk)):
        assert "1 of the last 3" in browser.get(place).content.decode()

"""What helps an owner on the spot: three steps to the first agent, help with its guide, the history of a thing."""

import pytest
from django.contrib import admin

from tests.registry.test_admin import AGENT, login, page, registered, run  # noqa: F401 - a fixture

HOSTILE = "<img src=x onerror=alert(1)>"


def test_an_owner_without_an_agent_is_shown_the_way_to_the_first_one(db):
    text = login("ann", "owner", HOSTILE).get(page("agent")).content.decode()
    assert 'id="first-agent"' in text
    assert "curl -X PUT http://testserver/v1/agents/my-agent" in text
    assert HOSTILE not in text


def test_an_owner_with_an_agent_is_not(registered):  # noqa: F811
    assert 'id="first-agent"' not in login("ann", "owner", "team-a").get(page("agent")).content.decode()
    assert 'id="first-agent"' not in login("op", "operator").get(page("agent")).content.decode()


@pytest.mark.parametrize(
    "address", [page("agent"), page("instance"), page("revision"), page("hook"), "/admin/routing/route/"]
)
def test_lists_have_help_and_lead_to_the_guide(registered, client, address):  # noqa: F811
    text = login("ann", "owner", "team-a").get(address).content.decode()
    assert '<a href="/docs/owners">' in text
    assert client.get("/docs/owners").content.startswith(b"# Agent owners")


@pytest.mark.parametrize("name", ["nothing", "settings.py", "..", "%2e%2e%2fREADME", "decisions"])
def test_only_guides_are_guides(client, name):
    assert client.get(f"/docs/{name}").status_code == 404


def test_the_history_of_a_thing_is_what_the_audit_log_says(registered, agent):  # noqa: F811
    owner = login("ann", "owner", "team-a")
    run(owner, "agent", "begin_maintenance", registered.pk)
    agent("POST", f"{AGENT}/maintenance", {"on": False})
    answer = owner.get(page("agent", "history", registered.pk))
    assert [(one.actor, one.action) for one in answer.context["edits"]][:2] == [
        ("agent:a1", "agent.maintenance"), ("user:ann", "agent.maintenance"),
    ]  # fmt: skip
    assert [(one.place, one.before, one.after) for one in answer.context["edits"][1].changed] == [
        ("on", "false", "true")
    ]
    assert "agent.maintenance" in answer.content.decode()


def test_nothing_can_be_changed_in_the_admin_that_is_not_on_record():
    ours = {"registry", "routing"}
    assert {model._meta.app_label for model in admin.site._registry} == ours

"""Hooks by API and admin: strict, audited, with the secret shown once, and only one's own to be seen."""

import pytest

from common.clock import now
from registry.models import Audit, Hook, HookFiring, Namespace
from registry.services import hooks
from tests.registry.calls import errors_of
from tests.registry.test_admin import login, page, registered, run  # noqa: F401 - fixtures

URL = "http://127.0.0.1:9/hook?token=t0ken"
HOOK = {"events": ["agent.state"], "url": URL}
NOWHERE = "/v1/hooks/5f0e9a3c-0000-4000-8000-000000000000"


@pytest.fixture
def made(operator, namespace):
    answer = operator("POST", f"/v1/hooks?namespace={namespace}", HOOK)
    assert answer.status_code == 201
    return answer.json()


@pytest.fixture
def its(operator, namespace, made):
    """its(method, "/test") calls that hook."""
    return lambda method, path="", body=None, query="": operator(
        method, f"/v1/hooks/{made['hookId']}{path}?namespace={namespace}{query}", body
    )


def test_the_secret_is_shown_once_and_kept_encrypted(made, its):
    assert made["secret"].startswith("whsec_")
    assert "secret" not in its("GET").json()
    assert made["secret"].encode() not in bytes(Hook.objects.get(pk=made["hookId"]).secrets)
    assert its("GET").json() == {key: value for key, value in made.items() if key != "secret"}


def test_a_hook_is_listed_tested_and_removed(operator, namespace, made, its):
    other = Namespace.objects.create(name=f"{namespace}-b")
    assert [one["hookId"] for one in operator("GET", f"/v1/hooks?namespace={namespace}").json()["items"]] == [
        made["hookId"]
    ]
    assert operator("GET", f"/v1/hooks?namespace={other.pk}").json()["items"] == []
    assert operator("GET", f"/v1/hooks/{made['hookId']}?namespace={other.pk}").status_code == 404
    assert its("DELETE").status_code == 204
    assert its("GET").status_code == 404


def test_a_test_is_a_firing_that_is_due(made, its):
    answer = its("POST", "/test")
    assert answer.status_code == 202
    (firing,) = its("GET", "/firings").json()["items"]
    assert firing == answer.json()
    assert (firing["event"], firing["state"], firing["attempts"]) == ("hook.test", "PENDING", 0)
    assert firing["message"]["hookId"] == made["hookId"]
    assert its("GET", "/firings", query="&state=DEAD").json()["items"] == []


def test_firings_come_in_pages(made, its):
    sent = [its("POST", "/test").json()["firingId"] for _ in range(3)]
    first = its("GET", "/firings", query="&limit=2").json()
    second = its("GET", "/firings", query=f"&limit=2&cursor={first['nextCursor']}").json()
    assert [one["firingId"] for one in first["items"] + second["items"]] == sent[::-1]
    assert second["nextCursor"] is None


def test_a_rotated_hook_signs_with_both_secrets_for_the_overlap(made, its):
    from registry import webhook_secrets

    new = its("POST", "/rotate").json()["secret"]
    row = Hook.objects.get(pk=made["hookId"])
    assert webhook_secrets.good(row.secrets, now()) == [new, made["secret"]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"url": URL}, {"/events": "REQUIRED"}),
        ({"events": [], "url": URL}, {"/events": "MIN_ITEMS"}),
        ({"events": ["agent.sleep"], "url": URL}, {"/events/0": "ENUM"}),
        ({"events": ["alert"], "url": URL, "secret": "x"}, {"/secret": "ADDITIONAL_PROPERTIES"}),
        ({"events": ["alert"]}, {"/url": "ONE_OF"}),
        ({"events": ["alert"], "url": URL, "command": "tell"}, {"/command": "ONE_OF"}),
        ({"events": ["alert"], "command": "rm -rf /"}, {"/command": "UNKNOWN_COMMAND"}),
        ({"events": ["alert"], "url": "javascript:alert(1)"}, {"/url": "ADDRESS"}),
        ({"events": ["alert"], "url": "http://10.0.0.1/"}, {"/url": "ADDRESS"}),
        ({"events": ["alert"], "url": "http://user:secret@127.0.0.1/"}, {"/url": "ADDRESS"}),
        ({"events": ["alert"], "url": URL, "agentId": "nobody"}, {"/agentId": "UNKNOWN_AGENT"}),
        ({"events": ["alert"], "url": URL, "agentId": "a b"}, {"/agentId": "PATTERN"}),
    ],
)
def test_what_is_wrong_is_named(operator, namespace, settings, body, expected):
    settings.REACH_HOOK_COMMANDS = {"tell": ["/bin/true"]}
    answer = operator("POST", f"/v1/hooks?namespace={namespace}", body)
    assert (answer.status_code, errors_of(answer)) == (422, expected)
    assert not Hook.objects.exists()


def test_a_command_hook_has_no_secret(operator, namespace, settings):
    settings.REACH_HOOK_COMMANDS = {"tell": ["/bin/true"]}
    path = f"/v1/hooks?namespace={namespace}"
    made = operator("POST", path, {"events": ["alert"], "command": "tell"}).json()
    assert "secret" not in made
    answer = operator("POST", f"/v1/hooks/{made['hookId']}/rotate?namespace={namespace}")
    assert (answer.status_code, errors_of(answer)) == (422, {"": "NO_SECRET"})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", NOWHERE),
        ("DELETE", NOWHERE),
        ("POST", NOWHERE + "/test"),
        ("POST", NOWHERE + "/rotate"),
        ("GET", NOWHERE + "/firings"),
        ("GET", "/v1/hooks/not-an-id"),
    ],
)
def test_what_is_not_there_is_404(operator, namespace, method, path):
    assert operator(method, f"{path}?namespace={namespace}").status_code == 404


@pytest.mark.parametrize("query", ["limit=0", "cursor=x", "state=LATE", "cursor=bm9uZQ=="])
def test_a_bad_query_is_400(its, query):
    assert its("GET", "/firings", query=f"&{query}").status_code == 400


def test_only_operators_see_hooks(client_with, agent, namespace, made):
    for api in (client_with("tasks:write", "catalog:read"), agent):
        for method, path in (("GET", "/v1/hooks"), ("POST", "/v1/hooks"), ("DELETE", f"/v1/hooks/{made['hookId']}")):
            assert api(method, path, HOOK if method == "POST" else None).status_code == 403


def test_every_change_is_audited_without_the_address_that_may_be_a_secret(made, its):
    its("POST", "/rotate")
    its("POST", "/test")
    its("DELETE")
    entries = Audit.objects.filter(object=f"hook:{made['hookId']}").order_by("id")
    assert [one.action for one in entries] == ["hook.create", "hook.rotate", "hook.test", "hook.remove"]
    assert entries[0].after["url"] == "http://127.0.0.1:9"
    assert "t0ken" not in str([(one.before, one.after) for one in entries])


def test_the_contract_describes_hooks(operator):
    document = operator("GET", "/v1/openapi.json").json()
    assert {"get", "post"} <= set(document["paths"]["/v1/hooks"])
    assert {"get", "delete"} <= set(document["paths"]["/v1/hooks/{hook_id}"])


@pytest.fixture
def hooked(registered):  # noqa: F811
    """A hook of team-a's agent, and one of the whole namespace."""
    author = {"actor": "test", "now": now()}
    mine = hooks.create(registered.namespace_id, events=["agent.state"], url=URL, agent_id="a1", **author).hook
    every = hooks.create(registered.namespace_id, events=["agent.state"], url=f"{URL}&all", **author).hook
    return mine, every


def test_owners_see_the_hooks_of_their_agents_only(hooked):
    mine, every = hooked
    for name, team, seen in (("ann", "team-a", [mine]), ("bob", "team-b", [])):
        browser = login(name, "owner", team)
        shown = browser.get(page("hook")).content.decode()
        for hook in hooked:
            assert (page("hook", "change", hook.pk) in shown) == (hook in seen)
            assert browser.get(page("hook", "change", hook.pk)).status_code == (200 if hook in seen else 302)
    assert login("op", "operator").get(page("hook", "change", every.pk)).status_code == 200
    assert login("sam", "support").get(page("hook")).status_code == 302


def test_an_owner_makes_a_hook_for_an_own_agent_and_sees_its_secret_once(registered):  # noqa: F811
    browser = login("ann", "owner", "team-a")
    form = {"agent": registered.pk, "events": ["agent.state"], "url": URL, "command": ""}
    shown = browser.post(page("hook", "add"), form, follow=True).content.decode()
    hook = Hook.objects.get(agent=registered)
    assert "whsec_" in shown
    assert "whsec_" not in browser.get(page("hook", "change", hook.pk)).content.decode()
    assert (hook.created_by, Audit.objects.latest("id").action) == ("user:ann", "hook.create")


def test_nobody_makes_a_hook_for_another_teams_agent_or_a_whole_namespace(registered):  # noqa: F811
    browser = login("bob", "owner", "team-b")
    for agent in (registered.pk, ""):
        form = {"agent": agent, "namespace": registered.namespace_id, "events": ["agent.state"], "url": URL}
        assert browser.post(page("hook", "add"), form).status_code == 200
    assert not Hook.objects.exists()


def test_the_form_names_what_is_wrong(registered):  # noqa: F811
    browser = login("op", "operator")
    form = {"events": ["agent.state"], "url": "javascript:alert(1)", "command": ""}
    shown = browser.post(page("hook", "add"), form).content.decode()
    assert "Choose an agent or a namespace." in shown
    assert "must begin with http" in shown


def test_an_address_is_never_a_link(hooked):
    browser = login("ann", "owner", "team-a")
    Hook.objects.filter(pk=hooked[0].pk).update(url="javascript:alert(1)")
    for address in (page("hook"), page("hook", "change", hooked[0].pk)):
        assert 'href="javascript' not in browser.get(address).content.decode().lower()


def test_an_owner_tests_rotates_and_removes(hooked):
    mine, every = hooked
    browser = login("ann", "owner", "team-a")
    none = {"firings-TOTAL_FORMS": "0", "firings-INITIAL_FORMS": "0"}
    browser.post(page("hook", "change", mine.pk), {"registry_hook_send_test": "1", **none})
    assert HookFiring.objects.get(hook=mine).event == "hook.test"
    shown = browser.post(page("hook", "change", mine.pk), {"registry_hook_rotate": "1", **none}, follow=True)
    assert "whsec_" in shown.content.decode()
    run(browser, "hook", "remove", mine.pk, every.pk)
    assert list(Hook.objects.all()) == [every]


def test_the_pages_are_in_chinese_too(hooked):
    browser = login("ann", "owner", "team-a")
    shown = browser.get(page("hook", "change", hooked[0].pk), HTTP_ACCEPT_LANGUAGE="zh-hans").content.decode()
    assert "实例状态变化" in shown

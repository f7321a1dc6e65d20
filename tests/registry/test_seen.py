"""Two people edit the same thing: the second is told who changed what, and nothing is undone by accident."""

import pytest
from django.urls import reverse

from common.clock import now
from registry.models import Audit, Client, Instance, Membership
from registry.services import clients, users
from routing.models import Route
from routing.services import routes
from tests.registry.test_admin import AGENT, login, no_rows, page, registered, run  # noqa: F401 - a fixture


def form_of(browser, address):
    """What a browser would send back of a page that it has just opened."""
    form = browser.get(address).context["adminform"].form
    return {name: form.get_initial_for_field(field, name) or "" for name, field in form.fields.items()}


@pytest.fixture
def client(namespace):
    return clients.create(namespace, "shop", actor="test", now=now()).client


@pytest.fixture
def operator(db):
    return login("op", "operator")


CLIENT_FORM = {"abilities": '["*"]', "limits": "{}", "callback_schedule": "long", "enabled": "on"}


def test_a_client_is_not_saved_over_what_another_has_changed(operator, client):
    address = page("client", "change", client.pk)
    seen = form_of(operator, address)["seen"]
    clients.change(client.namespace_id, "shop", limits={"burst": 7}, actor="user:kim", now=now())
    text = operator.post(address, {**CLIENT_FORM, "seen": seen}).content.decode()
    for expected in ("Nothing was saved", "kim", "burst"):
        assert expected in text
    row = Client.objects.get(pk=client.pk)
    assert (row.limits, row.callback_schedule) == ({"burst": 7}, "standard")


def test_a_client_is_saved_by_who_has_seen_it_as_it_is(operator, client):
    address = page("client", "change", client.pk)
    answer = operator.post(address, {**CLIENT_FORM, "seen": form_of(operator, address)["seen"]})
    assert (answer.status_code, Client.objects.get(pk=client.pk).callback_schedule) == (302, "long")


def test_a_person_is_not_saved_over_what_another_has_changed(operator):
    users.put("kim", role="owner", team="team-a", actor="test", now=now())
    member = Membership.objects.get(user__username="kim")
    address = page("membership", "change", member.pk)
    seen = form_of(operator, address)["seen"]
    users.put("kim", role="owner", team="team-b", actor="user:lee", now=now())
    form = {"role": "owner", "team": "team-c", "namespaces": '["*"]', "seen": seen}
    text = operator.post(address, form).content.decode()
    assert "lee" in text
    assert "team-a → team-b" in text
    assert Membership.objects.get(pk=member.pk).team == "team-b"


def route_form(route, **more):
    rows = {"candidates-TOTAL_FORMS": "2", "candidates-INITIAL_FORMS": "2", "strategy": "score", "settings": "{}"}
    for number, one in enumerate(route.candidates.all()):
        values = {"id": one.pk, "route": route.pk, "position": number, "agent_id": one.agent_id, "weight": one.weight}
        rows |= {f"candidates-{number}-{name}": value for name, value in values.items()}
    return {**rows, **more}


def put_route(namespace, first, second, actor="test"):
    candidates = [{"agent": "a1", "weight": first}, {"agent": "b", "weight": second}]
    routes.put(namespace, [{"ability": "work", "candidates": candidates}], actor=actor, now=now())
    return Route.objects.get(namespace=namespace)


def test_a_route_is_not_saved_over_what_another_has_changed(operator, namespace):
    route = put_route(namespace, 90, 10)
    address = reverse("admin:routing_route_change", args=[route.pk])
    form = route_form(route, seen=form_of(operator, address)["seen"])
    put_route(namespace, 50, 50, "user:kim")
    text = operator.post(address, form).content.decode()
    assert "kim" in text
    assert "candidates.b 10 → 50" in text
    now_there = Route.objects.get(namespace=namespace)
    assert (now_there.strategy, [one.weight for one in now_there.candidates.all()]) == ("least_conn", [50, 50])


def test_a_route_is_saved_by_who_has_seen_it_as_it_is(operator, namespace):
    route = put_route(namespace, 90, 10)
    address = reverse("admin:routing_route_change", args=[route.pk])
    answer = operator.post(address, route_form(route, seen=form_of(operator, address)["seen"]))
    assert (answer.status_code, Route.objects.get(pk=route.pk).strategy) == (302, "score")


def test_a_form_without_what_was_seen_saves_nothing(operator, client):
    assert operator.post(page("client", "change", client.pk), CLIENT_FORM).status_code == 200
    assert Client.objects.get(pk=client.pk).callback_schedule == "standard"


def test_what_is_gone_is_said_to_be_gone(operator, namespace):
    route = put_route(namespace, 90, 10)
    address = reverse("admin:routing_route_change", args=[route.pk])
    form = route_form(route, seen="1")
    routes.remove(namespace, "work", actor="user:kim", now=now())
    assert operator.post(address, form).status_code == 302
    assert not Route.objects.filter(namespace=namespace).exists()


def test_a_page_does_not_write_back_what_heartbeats_and_probes_have_changed_meanwhile(registered, agent):  # noqa: F811
    instance = registered.instances.get()
    owner = login("ann", "owner", "team-a")
    address = page("instance", "change", instance.pk)
    assert owner.get(address).status_code == 200
    agent("POST", f"{AGENT}/instances/i1/heartbeat", {"status": "draining", "weightPercent": 30})
    Instance.objects.filter(pk=instance.pk).update(state="DEGRADED", reason="slow", probe_failures=2)
    before = Instance.objects.filter(pk=instance.pk).values().get()
    assert before["weight_percent"] == 30
    forged = {"state": "ONLINE", "weight": "7", "weight_percent": "100", "draining": "", "invoke_url": "http://x/"}
    owner.post(address, {**forged, "_save": "1", **no_rows()})
    assert Instance.objects.filter(pk=instance.pk).values().get() == before


def test_maintenance_by_the_page_leaves_a_manifest_that_has_come_meanwhile(registered, agent, manifest):  # noqa: F811
    owner = login("ann", "owner", "team-a")
    address = page("agent", "change", registered.pk)
    owner.get(address)
    agent("PUT", AGENT, {**manifest, "metadata": {"name": "a1", "version": "9"}})
    owner.post(address, {"registry_agent_begin_maintenance_here": "1", **no_rows()})
    registered.refresh_from_db()
    assert (registered.version, registered.revision, registered.maintenance) == ("9", 3, True)


def audited(action):
    entry = Audit.objects.filter(action=action).latest("id")
    return entry.before, entry.after


def test_what_people_do_with_keys_instances_and_accounts_is_on_record_before_and_after(operator, registered, client):  # noqa: F811
    run(operator, "instance", "take_out", registered.instances.get().pk)
    before, after = audited("instance.leave")
    assert (before["present"], after["present"], after["state"]) == (True, False, "OFFLINE")
    run(operator, "client", "rotate", client.pk)
    before, after = audited("client.rotate")
    assert before["accessKey"] != after["accessKey"]
    run(operator, "credential", "revoke", client.credential_set.first().pk)
    before, after = audited("credential.revoke")
    assert (before["revokedAt"], after["client"]) == (None, "shop")
    assert after["revokedAt"] is not None
    users.put("kim", role="owner", team="team-a", actor="test", now=now())
    users.put("kim", role="support", actor="test", now=now())
    before, after = audited("user.change")
    assert (before["role"], before["team"], after["role"], after["team"]) == ("owner", "team-a", "support", "")


def test_a_person_who_changes_the_own_password_is_on_record_without_it(operator):
    form = {
        "old_password": "a long password",
        "new_password1": "an0ther lo-ng one",
        "new_password2": "an0ther lo-ng one",
    }
    assert operator.post("/admin/password_change/", form).status_code == 302
    entry = Audit.objects.latest("id")
    assert (entry.actor, entry.action, entry.after) == ("user:op", "user.password", {"password": "set"})
    assert operator.get("/admin/").status_code == 200

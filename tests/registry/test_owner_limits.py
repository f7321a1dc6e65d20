"""Another team's things by every address of the admin: they are not there, and nothing happens to them."""

import itertools

import pytest
from django.apps import apps
from django.contrib import admin
from django.urls import get_resolver, reverse

from common.clock import now
from registry.models import Agent, Audit, Hook, Instance, Revision
from registry.services import hooks
from routing.models import Route
from routing.services import routes
from tests.registry.test_admin import login, no_rows

MARK, WORD = "zebra-7", "zebr"  # in every name of the other team; what is searched for is shown on the page
TABLES = [*apps.get_app_config("registry").get_models(), *apps.get_app_config("routing").get_models()]


def addresses(patterns, names=()):
    """The names of all addresses that are of one object of some model."""
    for one in patterns:
        if hasattr(one, "url_patterns"):
            yield from addresses(one.url_patterns, (*names, one.namespace) if one.namespace else names)
        elif one.name and "object_id" in one.pattern.converters:
            yield ":".join((*names, one.name))


MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
OF_OBJECTS = {
    model: [
        name
        for name in addresses(get_resolver().url_patterns)
        if name.startswith(f"admin:{model._meta.app_label}_{model._meta.model_name}_")
    ]
    for model in MODELS
}
OF_OBJECTS[Agent].append("agent-mapping")
LISTS = ["", "?q={w}", "?agent__owner=team-a", "?all=1", "?namespace={ns}"]


@pytest.fixture
def theirs(operator, manifest, namespace):
    """An agent of team-a with all that may hang on one, and its objects by model."""
    manifest["metadata"]["name"] = f"{MARK}-agent"
    manifest["spec"] |= {"owner": "team-a", "displayName": MARK}
    manifest["spec"]["capabilities"][0]["name"] = f"{MARK}-work"
    at = f"?namespace={namespace}"
    operator("PUT", f"/v1/agents/{MARK}-agent{at}", manifest)
    operator("PUT", f"/v1/agents/{MARK}-agent/instances/{MARK}-i{at}", {"invokeUrl": "http://127.0.0.1:9/x"})
    by = {"actor": "test", "now": now()}
    hooks.create(namespace, events=["agent.state"], agent_id=f"{MARK}-agent", url=f"https://{MARK}.example/", **by)
    candidates = [{"agent": f"{MARK}-agent", "weight": 9}, {"agent": f"{MARK}-b", "weight": 1}]
    routes.put(namespace, [{"ability": f"{MARK}.work", "candidates": candidates}], **by)
    return Agent.objects.get(namespace=namespace)


@pytest.fixture
def stranger(theirs, operator, manifest, namespace):
    """An owner with an agent of the own in the same namespace."""
    manifest["metadata"]["name"], manifest["spec"]["owner"], manifest["spec"]["displayName"] = "mine", "team-b", "Mine"
    manifest["spec"]["capabilities"][0]["name"] = "work"
    operator("PUT", f"/v1/agents/mine?namespace={namespace}", manifest)
    return login("bob", "owner", "team-b")


def state():
    """Every row there is; pages that are only looked at, and deeds that are refused, change none of them."""
    return [row for model in TABLES for row in model.objects.order_by("pk").values()]


def object_of(model, theirs):
    """The other team's row of a model; any of those that nobody but operators sees."""
    found = {
        Agent: [theirs],
        Instance: theirs.instances.all(),
        Revision: theirs.revisions.all(),
        Hook: theirs.hooks.all(),
        Route: Route.objects.filter(namespace=theirs.namespace_id),
    }
    return next(iter(found.get(model, model._default_manager.order_by("pk")[:1])), None)


def reached(browser, address, data=None):
    """What somebody reads who follows wherever the address leads, or gets for what is sent there."""
    answer = browser.get(address, follow=True) if data is None else browser.post(address, data)
    assert answer.status_code in (200, 302, 400, 403, 404), (address, answer.status_code)
    assert MARK not in answer.content.decode(), address


OWNERS = [[model] for model in (Agent, Instance, Revision, Hook, Route)]
OPERATORS = [model for model in MODELS if [model] not in OWNERS]
EACH_MODEL = pytest.mark.parametrize(
    "models", [*OWNERS, OPERATORS], ids=[*(one.__name__ for [one] in OWNERS), "operators'"]
)


@EACH_MODEL
def test_an_object_is_not_found_by_any_of_its_addresses(stranger, theirs, models):
    before = state()
    for model in models:
        row = object_of(model, theirs)
        actions = [action.action_name for action in admin.site._registry[model]._get_base_actions_submit_line()]
        for name in OF_OBJECTS[model]:
            address = reverse(name, args=[row.pk if row is not None else "1"])
            reached(stranger, address)
            for pressed in ["_save", *actions]:
                given = {pressed: "1", "do": "set", "revision": "1", "current": "1", "post": "yes", "weight-0": "1"}
                reached(stranger, address, {**given, **no_rows()})
    assert state() == before


@EACH_MODEL
def test_no_list_search_filter_or_action_reaches_it(stranger, theirs, models):
    before = state()
    for model in models:
        address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for query in LISTS if [model] in OWNERS else [""]:
            reached(stranger, address + query.format(w=WORD, ns=theirs.namespace_id))
        row, pages = object_of(model, theirs), admin.site._registry[model]
        for action, across in itertools.product([*pages.actions, "delete_selected"], "01"):
            chosen = [row.pk] if row is not None else ["1"]
            reached(stranger, address, {"action": action, "_selected_action": chosen, "select_across": across})
    assert [row for row in state() if MARK in str(row)] == [row for row in before if MARK in str(row)]


ELSEWHERE = [
    "/admin/",
    "/admin/registry/",
    "/admin/routing/",
    f"/admin/search/?s={WORD}&extended=1",
    *(
        f"/admin/autocomplete/?app_label=registry&model_name={model}&field_name={field}&term={term}"
        for model, field in (("hook", "agent"), ("instance", "agent"), ("client", "namespace"), ("hook", "namespace"))
        for term in (WORD, "")
    ),
]


def test_no_completion_and_no_other_page_names_it(stranger):
    for address in ELSEWHERE:
        reached(stranger, address)


def test_no_row_below_an_own_page_reaches_it(stranger, theirs):
    mine, before = Agent.objects.get(agent_id="mine"), state()
    foreign = theirs.instances.get()
    rows = {**no_rows(), "instances-TOTAL_FORMS": "1", "instances-INITIAL_FORMS": "1"}
    given = {"instances-0-id": foreign.pk, "instances-0-agent": mine.pk, "instances-0-weight": "1", "_save": "1"}
    reached(stranger, reverse("admin:registry_agent_change", args=[mine.pk]), {**rows, **given})
    assert state() == before


def test_no_hook_listens_to_it(stranger, theirs):
    given = {"agent": theirs.pk, "events": ["agent.state"], "url": "https://bob.example/", "command": ""}
    reached(stranger, reverse("admin:registry_hook_add"), given)
    assert Hook.objects.filter(agent=theirs).count() == 1
    assert not Audit.objects.filter(actor="user:bob").exists()

"""Whatever callers, agents, receivers and owners write stays text: on every page of console and admin, in every place
of a page where a browser, or the admin's Alpine, would run it."""

from html.parser import HTMLParser

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.urls import reverse

from callbacks.models import Callback, Delivery
from common.clock import now
from registry.models import Agent, Audit, Client, Credential, Hook, HookFiring, Instance, Membership
from routing.models import Candidate, Event, Leader, Route, Task, TaskBody, Worker
from tests.insight.rows import ms
from tests.insight.test_catalog_pages import space  # noqa: F401 - fixture
from tests.insight.test_console import HOSTILE
from tests.insight.test_console_pages import PAGES, filled  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db
MARK = "alert(1)"
H = f"""javascript:{MARK}//"'><img src=x onerror={MARK}></script><script>{MARK}</script><svg onload={MARK}>{{{{7*7}}}}"""
ADDRESSES = ("href", "src", "action", "formaction", "hx-get", "hx-post", "xlink:href")
CODE = ("on", "x-", "@", ":", "hx-on", "hx-vals", "hx-vars", "style", "srcdoc")


class Runs(HTMLParser):
    """Collects what a browser would run of a foreign text: elements, handlers, addresses, scripts."""

    def __init__(self, text):
        super().__init__()
        self.found, self._script = [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self._script = dict(attributes) if tag in ("script", "style") else None
        for name, value in attributes:
            text = (value or "").strip().lower()
            if name.startswith(CODE) and MARK in text:
                self.found.append((tag, name, value))
            if name in ADDRESSES and text.startswith("javascript:"):
                self.found.append((tag, name, value))
        if tag == "img" and ("src", "x") in attributes:
            self.found.append((tag, "src", "x"))

    def handle_endtag(self, tag):
        self._script = None

    def handle_data(self, data):
        if self._script is not None and MARK in data and self._script.get("type") != "application/json":
            self.found.append(("script", "", data[:200]))


def test_the_reader_finds_what_would_run():
    assert len(Runs(f'<p title="{H}">').found) >= 3
    assert len(Runs(f'<a href="javascript:{MARK}" x-data="{MARK}"></a>').found) == 2
    assert Runs(f"<p title='{MARK}'>{MARK} {{{{7*7}}}}</p>").found == []


@pytest.fixture
def hostile(filled):  # noqa: F811
    """The pages' rows, and one of every other kind, with a hostile text wherever somebody outside could have put one."""
    person, ids = filled
    at, namespace = now(), ids["namespace"]
    agent = Agent.objects.get(namespace=namespace, agent_id="a1")
    Agent.objects.filter(pk=agent.pk).update(
        display_name=H[:200], owner=H[:128], version=H[:64], tags=[H], warnings=[{"message": H, "pointer": H}]
    )
    agent.revisions.update(source=H, created_by=H[:200], content_type=H[:64], warnings=[{"message": H, "pointer": H}])
    agent.capabilities.update(description=H)
    Instance.objects.filter(agent=agent).update(
        invoke_url=H, health_url=H, lookup_url=H, networks={H: H}, region=H[:64], labels={H: H}, reason=H[:500],
        heartbeat={"status": "ok", "components": {H: H}, "resources": {H: 1}}, probe_reason=H[:500], version=H[:64],
    )  # fmt: skip
    hook = Hook.objects.create(namespace_id=namespace, agent=agent, events=["agent.state", H], url=H, created_at=at,
                               created_by=H[:200], failing_since=at, last_error=H[:500])  # fmt: skip
    HookFiring.objects.create(hook=hook, about="x", event=H[:32], agent_id=H[:128], body=H.encode(), last_error=H[:500],
                              created_at=at, tries=[{"number": 1, "at": "", "status": 500, "error": H, "tookMs": 1}])  # fmt: skip
    Audit.objects.create(
        at=at, actor=H[:200], ip=H[:64], namespace=namespace, action=H[:64], object=H, before={H: H}, after=H
    )
    client = Client.objects.create(namespace_id=namespace, name=H[:128], abilities=[H], limits={H: 1})
    Credential.objects.create(kind="client", namespace_id=namespace, client=client, agent_id=H[:128], key_hash="h",
                              key_hint=H[:8], access_key="a", secret_key=b"", scopes=[H])  # fmt: skip
    Membership.objects.create(user=User.objects.create_user(H[:150]), role="owner", team=H[:128], namespaces=[H])
    route = Route.objects.create(namespace_id=namespace, ability=f"{H}2"[:200], settings={H: H}, updated_by=H[:200])
    Candidate.objects.create(route=route, agent_id=H[:128], capability=H[:128], version=H[:64])
    Worker.objects.create(boot_id=ids["task"], node=H[:200], started_at=at, expires_at=at + ms(60_000))
    Leader.objects.create(duty=H[:32], holder=H[:200], expires_at=at)
    _rewrite(ids["task"])
    return person, ids


def _rewrite(task_id):
    Task.objects.filter(id=task_id).update(
        error_message=H, error_details={H: H}, timings={H: 1}, progress={"percent": 5, "message": H}, call_path=[H],
        fallback={"step": H, "ability": H}, idempotency_key=H, traceparent="",
    )  # fmt: skip
    TaskBody.objects.filter(task_id=task_id).update(
        metadata=b'{"source": %s}' % _json(H),
        result=b'{"status": "FAILED", "data": %s}' % _json(H),
        late=b'{"status": "SUCCEEDED", "data": %s}' % _json(H),
    )
    Event.objects.filter(task_id=task_id).update(
        node=H[:200], agent_id=H[:128], instance_id=H[:128], detail={"reason": H, "text": H}
    )
    Callback.objects.filter(subject_id=task_id).update(url=H, last_error=H[:500])
    Delivery.objects.filter(callback_id__in=Callback.objects.filter(subject_id=task_id).values("id")).update(
        error=H[:500], answer=f"<html>{H}".encode()
    )


def _json(text):
    import json

    return json.dumps(text).encode()


@pytest.mark.parametrize("name", PAGES)
def test_no_foreign_text_runs_on_a_console_page(hostile, name):
    person, ids = hostile
    path, _, query = PAGES[name].format(hostile="HOSTILE", **ids).partition("?")
    given = dict(part.split("=") for part in query.split("&")) if query else {}
    text = HOSTILE if name == "ability" else H  # which is the one that is there
    answer = person.get(path, {key: text if value == "HOSTILE" else value for key, value in given.items()})
    assert answer.status_code == 200
    assert Runs(answer.content.decode()).found == []


def admin_pages():
    """(model, kind of page) of everything that is registered."""
    kinds = ("changelist", "add", "change")
    return [(model._meta.label_lower, kind) for model in admin.site._registry for kind in kinds]


@pytest.fixture
def operator(db):
    browser = Browser()
    browser.force_login(User.objects.create_superuser("root", password="x"))
    return browser


def test_no_foreign_text_runs_on_any_admin_page(hostile, operator):
    seen = []
    for label, kind in admin_pages():
        model = next(one for one in admin.site._registry if one._meta.label_lower == label)
        row = model._default_manager.order_by("-pk").first()
        if kind == "change" and row is None:
            continue
        address = reverse(f"admin:{label.replace('.', '_')}_{kind}", args=[row.pk] if kind == "change" else [])
        answer = operator.get(address, {"q": H} if kind == "changelist" else {})
        if answer.status_code == 200:
            seen.append((label, kind))
            assert Runs(answer.content.decode()).found == [], address
        if kind == "changelist":
            assert Runs(operator.get(address).content.decode()).found == [], address
    assert {("registry.agent", "change"), ("routing.task", "change"), ("registry.audit", "changelist")} <= set(seen)
    assert len(seen) > 25

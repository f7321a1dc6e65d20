"""The pages that are measured, over the made-up past of `load_history`: who asks for what."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.test import Client

from common.clock import now
from common.ids import floor_id, time_of
from registry.models import Membership
from registry.services import clients
from routing.models import Task

Page = tuple[str, str, Callable[[], Any]]

FILTERS: tuple[dict[str, Any], ...] = (
    {}, {"state": "FAILED"}, {"state": "RUNNING"}, {"state": "CANCELLED"}, {"ability": "ticket.classify"},
    {"ability": "speech.transcribe"}, {"agent": "ticket-classify"}, {"agent": "speech-transcribe-v2"},
    {"client": "shop"}, {"client": "partner-b"}, {"error": "AGENT_FAILED"}, {"error": "LOOP_DETECTED"},
    {"error": "BUDGET_EXHAUSTED"}, {"within": "1h"}, {"within": "7d"}, {"callback": "DEAD"}, {"callback": "DELIVERED"},
    {"q": "speech.transcribe"}, {"q": "LOOP_DETECTED"}, {"q": "gave up on"}, {"q": "no such words"},
    {"q": "image-tag-v2"}, {"ability": "image.tag", "client": "partner-b", "state": "TIMEOUT"},
    {"state": ["FAILED", "TIMEOUT"], "within": "24h"},
)  # fmt: skip
BULKS = (
    {"action": "retry", "state": "FAILED"}, {"action": "cancel"}, {"action": "redeliver"},
    {"action": "retry", "ability": "image.tag"}, {"action": "retry", "agent": "image-tag"},
)  # fmt: skip
SPACES = ("history-main", "history-few", "history-old")


def pages() -> Iterator[Page]:
    """(name, who asks, a call that asks for the page and returns the answer)."""
    admin, support, few, owner = _person(), _person("support"), _person("support", ["history-few"]), _person("owner")
    old = _person("support", ["history-old", "history-few"])
    people = {"admin": admin, "support": support, "of few": few, "of old": old, "owner": owner}
    task = _a_task()
    for who, person in people.items():
        for given in FILTERS:
            yield _page(f"list {urlencode(given, doseq=True)}", who, person, "/console/", given)
        yield _page("list, an old page", who, person, "/console/", {"before": str(_an_old_id())})
    for space in SPACES:
        yield _page(f"list namespace={space}", "admin", admin, "/console/", {"namespace": space})
    for name in ("id", "trace_id", "correlation_id"):
        yield _page(f"search by {name}", "admin", admin, "/console/", {"q": str(getattr(task, name))})
    yield _page("journey", "admin", admin, f"/console/tasks/{task.id}/")
    yield _page("trace", "admin", admin, f"/console/traces/{task.trace_id}/")
    for who in ("admin", "of few", "of old", "owner"):
        yield from _others(who, people[who])
    yield from _admin(admin, task)
    yield from _api(task)
    yield _page("metrics", "anybody", Client(SERVER_NAME="localhost"), "/metrics")


def _others(who: str, person: Client) -> Iterator[Page]:
    for state in ("", "PENDING", "DELIVERED", "DEAD"):
        yield _page(f"callbacks {state}", who, person, "/console/callbacks/", {"state": state})
    for by, within in (("ability", "1h"), ("client", "24h"), ("agent", "7d")):
        yield _page(f"dashboard {by} {within}", who, person, "/console/dashboards/", {"by": by, "within": within})
    space = "history-few" if who != "of old" else "history-old"
    if who != "owner":
        for one in (space, "history-main") if who == "admin" else (space,):
            for given in BULKS:
                query = {**given, "namespace": one}
                yield _page(f"bulk question {urlencode(given)}", f"{who}, {one}", person, "/console/bulk/new", query)
    yield _page("catalog", who, person, "/console/catalog/", {"namespace": space})
    yield _page("alerts", who, person, "/console/alerts/")
    yield _page("agent", who, person, f"/console/agents/{space}/ticket-triage/")


def _admin(admin: Client, task: Task) -> Iterator[Page]:
    yield _page("admin tasks", "admin", admin, "/admin/routing/task/")
    yield _page("admin tasks, page 20", "admin", admin, "/admin/routing/task/", {"p": "20"})
    for name in ("id", "trace_id", "correlation_id"):
        yield _page(f"admin search by {name}", "admin", admin, "/admin/routing/task/", {"q": str(getattr(task, name))})
    yield _page("admin task", "admin", admin, f"/admin/routing/task/{task.id}/change/")
    for model in ("registry/agent", "registry/audit", "registry/client", "registry/namespace", "routing/route"):
        yield _page(f"admin {model}", "admin", admin, f"/admin/{model}/")


def _api(task: Task) -> Iterator[Page]:
    """The lists that the API gives, with a client's key."""
    for space in SPACES:
        made = clients.create(
            space, f"pages-{secrets.token_hex(4)}", scopes=["tasks:read"], abilities=["*"], limits={},
            callback_schedule="standard", actor="pages", now=now(),
        )  # fmt: skip
        person = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {made.issued.key}"})
        yield _page("api list", f"a client of {space}", person, "/v1/tasks")


def _page(name: str, who: str, person: Client, path: str, query: dict[str, Any] | None = None) -> Page:
    return name, who, lambda: person.get(path, query or {})


def _person(role: str = "", namespaces: tuple[str, ...] | list[str] = ("*",)) -> Client:
    """Somebody who is logged in; without a role an admin, as an owner one of a quarter of the agents."""
    name = f"pages-{secrets.token_hex(6)}"
    user = get_user_model().objects.create_user(name, is_superuser=not role, is_staff=not role)
    if role:
        Membership.objects.create(user=user, role=role, team="finance", namespaces=list(namespaces))
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


def _a_task() -> Task:
    """One of the middle of the past that failed twice and was called back."""
    middle = Task.objects.filter(id__gte=_an_old_id(), attempts=2, callback_id__isnull=False)
    found = middle.exclude(correlation_id=None).order_by("id").first()
    assert found is not None
    return found


def _an_old_id() -> Any:
    """The id of a task about halfway back."""
    first, last = (Task.objects.order_by(order).values_list("id", flat=True).first() for order in ("id", "-id"))
    assert first is not None
    assert last is not None
    return floor_id(time_of(first) + (time_of(last) - time_of(first)) / 2)

"""The admin of routing: routes are saved by their service, tasks are found by exact ids."""

from typing import Any

import pytest
from django.test import Client as Browser

from tests.routing.api.conftest import Platform, platform, shop, submit  # noqa: F401 - fixtures


@pytest.fixture
def operator(db: None) -> Browser:
    from django.contrib.auth.models import User

    browser = Browser()
    browser.force_login(User.objects.create_superuser("root", password="x"))
    return browser


def form(platform: Platform, *candidates: tuple[str, str], **more: Any) -> dict[str, Any]:  # noqa: F811
    fields = {
        "namespace": platform.namespace, "ability": "say.echo", "strategy": "least_conn", "settings": "{}",
        "candidates-TOTAL_FORMS": len(candidates), "candidates-INITIAL_FORMS": 0,
    }  # fmt: skip
    for number, (agent, weight) in enumerate(candidates):
        row = {"position": number, "agent_id": agent, "weight": weight}
        fields |= {f"candidates-{number}-{name}": value for name, value in row.items()}
    return {**fields, **more}


def test_a_route_is_saved_by_its_service_and_audited(operator, platform):  # noqa: F811
    from registry.models import Audit
    from routing.models import Route

    answer = operator.post("/admin/routing/route/add/", form(platform, ("worker", "100"), ("b", "")))
    assert answer.status_code == 302, answer.content.decode()[:3000]
    route = Route.objects.get(namespace=platform.namespace)
    assert [(one.agent_id, one.weight) for one in route.candidates.all()] == [("worker", 100), ("b", None)]
    assert Audit.objects.filter(action="route.create", actor="user:root").exists()


@pytest.mark.parametrize(
    ("candidates", "more", "told"),
    [
        ([("worker", "0")], {}, "only weights of 0"),
        ([], {}, "/candidates"),
        ([("worker", "1"), ("worker", "2")], {}, "twice"),
        ([("worker", "1")], {"settings": '{"retry": {"maxAttempts": 0}}'}, "/retry/maxAttempts"),
        ([("worker", "1")], {"strategy": "luck"}, "/strategy"),
    ],
)
def test_a_wrong_route_is_refused_as_by_api(operator, platform, candidates, more, told):  # noqa: F811
    from routing.models import Route

    page = operator.post("/admin/routing/route/add/", form(platform, *candidates, **more))
    assert (page.status_code, told in page.content.decode()) == (200, True)
    assert not Route.objects.filter(namespace=platform.namespace).exists()


@pytest.mark.parametrize("field", ["id", "correlation_id", "trace_id"])
def test_a_task_is_found_by_its_exact_ids(operator, submit, field):  # noqa: F811
    from routing.models import Task

    ids = [submit(correlationId=f"order-{n}", traceId=f"trace-{n}") for n in range(2)]
    term = getattr(Task.objects.get(id=ids[0]), field)
    page = operator.get("/admin/routing/task/", {"q": str(term)}).content.decode()
    assert ids[0] in page
    assert ids[1] not in page


def test_a_tasks_page_opens_and_leads_to_its_journey(operator, submit):  # noqa: F811
    task_id = submit()
    page = operator.get(f"/admin/routing/task/{task_id}/change/").content.decode()
    assert f"/console/tasks/{task_id}/" in page


@pytest.mark.parametrize("bad", ["abc", "1", "%00", "-" * 36, "null"])
def test_a_bad_id_is_no_server_error(operator, bad):
    assert operator.get(f"/admin/routing/task/{bad}/change/").status_code in (302, 400, 404)


@pytest.mark.parametrize("path", ["task/?q=%00", "task/?q=%ed%a0%80", "worker/", "leader/", "route/"])
def test_lists_open(operator, path):
    assert operator.get(f"/admin/routing/{path}").status_code == 200


def test_owners_do_not_see_routes(db):
    from django.contrib.auth.models import User

    browser = Browser()
    browser.force_login(User.objects.create_user("owner", is_staff=True))
    assert browser.get("/admin/routing/route/").status_code == 403

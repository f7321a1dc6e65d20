"""Bulk actions: counted first, worked off in pages, each task touched once, seen and stopped while they run."""

import pytest

from common.clock import now
from insight.models import Bulk
from insight.services import bulk
from registry.models import Audit
from registry.services import clients
from routing.models import Task
from tests.insight.rows import make_callback, make_task, ms
from tests.registry.calls import Api
from tests.registry.conftest import operator  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db


def ago():
    return now() - ms(60_000)


def made(namespace, count, state="FAILED", **fields):
    return [make_task(namespace, state, at=ago(), **fields) for _ in range(count)]


def ask(api, namespace, action, filter=None, **more):
    body = {"action": action, "filter": filter or {"ability": "ticket.classify"}, **more}
    return api("POST", f"/v1/bulk?namespace={namespace}", body)


def run(times=1):
    return sum(bulk.work(now()) for _ in range(times))


def states(namespace):
    return sorted(Task.objects.filter(namespace=namespace).values_list("state", flat=True))


def test_a_dry_run_counts_and_touches_nothing(namespace, operator):  # noqa: F811
    made(namespace, 3)
    made(namespace, 2, "SUCCEEDED")
    answer = ask(operator, namespace, "retry", dryRun=True)
    assert (answer.status_code, answer.json()["count"], answer.json()["state"]) == (202, 3, "PREVIEW")
    assert run() == 0
    assert states(namespace).count("FAILED") == 3


def test_all_that_the_filter_finds_is_retried_and_shown(namespace, operator):  # noqa: F811
    made(namespace, 3)
    made(namespace, 1, ability="other")
    found = ask(operator, namespace, "retry").json()
    assert run() == 3
    seen = operator("GET", f"/v1/bulk/{found['bulkId']}?namespace={namespace}").json()
    assert {key: seen[key] for key in ("state", "count", "done", "skipped")} == {
        "state": "DONE", "count": 3, "done": 3, "skipped": 0,
    }  # fmt: skip
    assert states(namespace) == ["FAILED", "RECEIVED", "RECEIVED", "RECEIVED"]


def test_it_is_worked_off_in_pages(namespace, operator, monkeypatch):  # noqa: F811
    monkeypatch.setattr(bulk, "PER_RUN", 2)
    made(namespace, 5, "RECEIVED")
    ask(operator, namespace, "cancel")
    assert [run(), run(), run(), run()] == [2, 2, 1, 0]
    assert states(namespace) == ["CANCELLED"] * 5


def test_what_has_moved_on_before_its_turn_is_left_out(namespace, operator):  # noqa: F811
    _, second = made(namespace, 2, "RECEIVED")
    ask(operator, namespace, "cancel")
    bulk.cancel.cancel(second.id, "test", now())
    run()
    row = Bulk.objects.get(namespace=namespace)
    assert (row.done, row.skipped, row.state) == (1, 0, "DONE")


def test_a_stopped_one_touches_no_further_task(namespace, operator, monkeypatch):  # noqa: F811
    monkeypatch.setattr(bulk, "PER_RUN", 1)
    made(namespace, 3, "RECEIVED")
    path = f"/v1/bulk/{ask(operator, namespace, 'cancel').json()['bulkId']}/stop?namespace={namespace}"
    run()
    assert operator("POST", path).json()["state"] == "STOPPED"
    assert operator("POST", path).status_code == 409
    assert run() == 0
    assert states(namespace).count("CANCELLED") == 1


def test_one_that_another_worker_is_at_is_left_alone(namespace, operator):  # noqa: F811
    made(namespace, 1, "RECEIVED")
    ask(operator, namespace, "cancel")
    Bulk.objects.filter(namespace=namespace).update(leased_until=now() + bulk.LEASE)
    assert run() == 0


def test_dead_callbacks_are_redelivered(namespace, operator):  # noqa: F811
    dead = make_callback(made(namespace, 1)[0], "DEAD", errors=("503",) * 6)
    fine = make_callback(made(namespace, 1)[0])
    ask(operator, namespace, "redeliver")
    assert run() == 1
    dead.refresh_from_db()
    fine.refresh_from_db()
    assert (dead.state, fine.state) == ("PENDING", "DELIVERED")


def test_a_client_touches_its_own_tasks_only(namespace):
    made(namespace, 1, "RECEIVED")
    other = made(namespace, 1, "RECEIVED", client="crm")[0]
    shop = Api(clients.create(namespace, "shop", actor="test", now=now()).issued.key)
    found = ask(shop, namespace, "cancel").json()
    run()
    other.refresh_from_db()
    assert (found["count"], other.state) == (1, "RECEIVED")
    crm = Api(clients.create(namespace, "crm", actor="test", now=now()).issued.key)
    assert crm("GET", f"/v1/bulk/{found['bulkId']}").status_code == 404


def test_tasks_that_come_later_are_not_touched(namespace, operator):  # noqa: F811
    made(namespace, 1, "RECEIVED")
    ask(operator, namespace, "cancel")
    later = make_task(namespace, "RECEIVED", at=now() + ms(1000))
    run()
    later.refresh_from_db()
    assert later.state == "RECEIVED"


def test_it_is_audited_and_so_is_each_task(namespace, operator):  # noqa: F811
    made(namespace, 2, "RECEIVED")
    ask(operator, namespace, "cancel")
    run()
    actions = list(Audit.objects.filter(namespace=namespace).order_by("id").values_list("action", flat=True))
    assert actions[-3:] == ["bulk.create", "task.cancel", "task.cancel"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"filter": {}}, "/filter"),
        ({"filter": {"ablity": "x"}}, "/filter/ablity"),
        ({"filter": {"state": "LOST"}}, "/filter/state"),
        ({"filter": {"createdAfter": "yesterday"}}, "/filter/createdAfter"),
        ({"filter": {"taskIds": ["x"]}}, "/filter/taskIds/0"),
        ({"action": "delete"}, "/action"),
    ],
)
def test_nonsense_is_named(namespace, operator, change, pointer):  # noqa: F811
    body = {"action": "retry", "filter": {"state": "FAILED"}, **change}
    answer = operator("POST", f"/v1/bulk?namespace={namespace}", body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)

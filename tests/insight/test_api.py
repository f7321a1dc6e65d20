"""The endpoints of this package: who may ask, and what odd questions get."""

import pytest
from django.test import Client as Browser

from common.clock import now
from registry.services import clients, credentials
from tests.insight.rows import make_attempt, make_task

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller(namespace):
    """caller(name="shop", scopes=…) → GET as that client."""

    def made(name="shop", scopes=("tasks:read",)):
        key = clients.create(namespace, name, scopes=list(scopes), actor="test", now=now()).issued.key
        return lambda path: Browser().get(path, headers={"Authorization": f"Bearer {key}"})

    return made


@pytest.fixture
def operator():
    key = credentials.operator(actor="test", now=now()).key
    return lambda path: Browser().get(path, headers={"Authorization": f"Bearer {key}"})


PATHS = ["/v1/tasks/{id}/journey", "/v1/traces/{trace}", "/v1/usage?by=client"]


def paths_of(task):
    return [path.format(id=task.id, trace=task.trace_id) for path in PATHS]


def test_a_client_reads_its_own(namespace, caller):
    task = make_task(namespace)
    make_attempt(task)
    get = caller()
    assert [get(path).status_code for path in paths_of(task)] == [200, 200, 200]
    assert get(f"/v1/tasks/{task.id}/journey").json()["attempts"][0]["certainty"] == "RAN"


def test_another_clients_tasks_are_not_there_and_not_counted(namespace, caller):
    task = make_task(namespace)
    get = caller("other")
    journey, trace, usage = [get(path) for path in paths_of(task)]
    assert (journey.status_code, trace.status_code) == (404, 404)
    assert usage.json()["items"] == []


def test_an_operator_reads_the_namespace_that_is_named(namespace, operator):
    task = make_task(namespace)
    assert operator(f"/v1/tasks/{task.id}/journey?namespace={namespace}").status_code == 200
    assert operator(f"/v1/tasks/{task.id}/journey?namespace=nowhere").status_code == 404


def test_without_a_credential_it_is_401_and_without_the_scope_403(namespace, caller):
    task = make_task(namespace)
    get = caller(scopes=["catalog:read"])
    for path in paths_of(task):
        assert Browser().get(path).status_code == 401
        assert get(path).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tasks/x/journey",
        "/v1/tasks/7d444840-9dc0-11d1-b245-5ffdce74fad2/journey",
        "/v1/traces/%00",
        "/v1/traces/no",
    ],
)
def test_unknown_and_malformed_ids_are_not_there(caller, path):
    answer = caller()(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "query",
    ["", "by=payload", "by=client&from=yesterday", "by=client&to=2026-13-01T00:00:00Z", "by=client&from=9999-01-01T00:00:00Z",
     "by=client&from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", "by=client&from=0001-01-01T00:00:00Z"],
)  # fmt: skip
def test_a_bad_usage_question_is_400(caller, query):
    answer = caller()(f"/v1/usage?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")


def test_what_watchers_ask_is_open_and_only_read():
    for path in ("/healthz", "/metrics"):
        assert Browser().get(path).status_code == 200
        assert Browser().post(path).status_code == 405

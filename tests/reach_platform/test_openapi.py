"""The API's description: open, complete, and true to the views."""

import json
from typing import Any

import pytest
from django.test import Client as Browser
from jsonschema import Draft202012Validator

PATHS = (
    "/v1/reach", "/v1/reach/batch", "/v1/tasks", "/v1/tasks/{task_id}", "/v1/tasks/{task_id}/cancel",
    "/v1/tasks/{task_id}/retry", "/v1/tasks/{task_id}/events", "/v1/tasks/{task_id}/journey",
    "/v1/tasks/{task_id}/callback/redeliver", "/v1/tasks/{task_id}/receipt", "/v1/tasks/{task_id}/progress",
    "/v1/tasks/{task_id}/result", "/v1/abilities", "/v1/route",
    "/v1/route/{decision_id}/outcome", "/v1/routes", "/v1/routes/{ability}", "/v1/agents",
    "/v1/clients", "/v1/namespaces", "/v1/catalog", "/v1/usage", "/v1/callbacks/redeliver", "/healthz", "/readyz",
)  # fmt: skip


@pytest.fixture
def described(db: None) -> Any:
    answer = Browser().get("/v1/openapi.json")
    assert answer.status_code == 200
    return answer.json()


def test_it_is_openapi_3_1_and_names_every_path(described):
    assert described["openapi"].startswith("3.1")
    assert set(PATHS) <= described["paths"].keys()


def test_every_operation_has_its_own_id(described):
    ids = [op["operationId"] for path in described["paths"].values() for op in path.values()]
    assert len(ids) == len(set(ids))


def test_either_kind_of_credential_does(described):
    assert described["paths"]["/v1/reach"]["post"]["security"] == [{"bearer": []}, {"signature": []}]


def test_errors_are_one_schema_with_examples(described):
    answers = described["paths"]["/v1/reach"]["post"]["responses"]
    assert {"200", "202", "400", "401", "403", "404", "405", "406", "413", "415", "422", "429", "503"} <= answers.keys()
    content = answers["422"]["content"]["application/problem+json"]
    assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert "IDEMPOTENCY_MISMATCH" in content["examples"]


def test_the_request_schema_is_the_one_that_requests_are_checked_with(described):
    from routing.request_schema import REACH

    shown = described["paths"]["/v1/reach"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert shown == json.loads(json.dumps(REACH))
    Draft202012Validator.check_schema(shown)


def test_the_documentation_page_is_open(db):
    assert Browser().get("/docs").status_code == 200

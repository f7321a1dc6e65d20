import csv
import io
import json

import pytest

from common.clock import now
from registry import selectors
from registry.models import Audit, Membership
from tests.registry.calls import Api, errors_of

CLIENT = {"name": "shop", "scopes": ["tasks:write", "catalog:read"], "abilities": ["ticket.*"]}


def test_a_namespace_is_made_once(operator):
    body = {"name": "reach-t1"}
    assert [operator("POST", "/v1/namespaces", body).status_code for _ in range(2)] == [201, 200]


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "x" * 64, "a b", 1, None, "é"])
def test_a_bad_namespace_name_is_refused(operator, name):
    assert operator("POST", "/v1/namespaces", {"name": name}).status_code == 422


def test_a_new_client_shows_its_keys_once(operator, namespace):
    made = operator("POST", "/v1/clients", {**CLIENT, "namespace": namespace})
    body = made.json()
    assert made.status_code == 201
    assert body["callbackSecret"].startswith("whsec_")
    assert Api(body["key"])("GET", "/v1/catalog").status_code == 200
    shown = operator("GET", f"/v1/clients?namespace={namespace}").json()["items"]
    assert [(c["name"], c["scopes"]) for c in shown] == [("shop", ["tasks:write", "catalog:read"])]
    assert not {"key", "secretKey", "callbackSecret"} & shown[0].keys()


def test_a_client_name_is_taken_once(operator, namespace):
    body = {**CLIENT, "namespace": namespace}
    operator("POST", "/v1/clients", body)
    again = operator("POST", "/v1/clients", body)
    assert (again.status_code, again.json()["code"]) == (409, "STATE_CONFLICT")


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        ("name", "a/b", "/name"),
        ("name", True, "/name"),
        ("scopes", ["admin"], "/scopes/0"),
        ("scopes", "tasks:write", "/scopes"),
        ("limits", {"burst": True}, "/limits/burst"),
        ("limits", {"ratePerSecond": 0}, "/limits/ratePerSecond"),
        ("limits", {"ratePerSecond": "5"}, "/limits/ratePerSecond"),
        ("limits", {"burst": 0}, "/limits/burst"),
        ("limits", {"maxConcurrency": -1}, "/limits/maxConcurrency"),
        ("limits", {"queueMax": 5}, "/limits/queueMax"),
        ("limits", {"colour": 1}, "/limits/colour"),
        ("callbackSchedule", "never", "/callbackSchedule"),
        ("unknown", 1, "/unknown"),
    ],
)
def test_a_wrong_client_field_is_named(operator, namespace, field, value, pointer):
    refused = operator("POST", "/v1/clients", {**CLIENT, "namespace": namespace, field: value})
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID")
    assert pointer in errors_of(refused)


def test_a_client_of_an_unknown_namespace_is_404(operator):
    assert operator("POST", "/v1/clients", {**CLIENT, "namespace": "no-such"}).status_code == 404


def test_rotation_overlaps(operator, namespace):
    first = operator("POST", "/v1/clients", {**CLIENT, "namespace": namespace}).json()
    second = operator("POST", "/v1/clients/shop/rotate", {"namespace": namespace}).json()
    assert [Api(one["key"])("GET", "/v1/catalog").status_code for one in (first, second)] == [200, 200]
    secrets = selectors.callback_secrets(namespace, "shop", now())
    assert secrets == [second["callbackSecret"], first["callbackSecret"]]


def test_rotation_without_overlap_ends_the_old_key(operator, namespace, django_capture_on_commit_callbacks):
    first = operator("POST", "/v1/clients", {**CLIENT, "namespace": namespace}).json()
    assert Api(first["key"])("GET", "/v1/catalog").status_code == 200
    with django_capture_on_commit_callbacks(execute=True):
        second = operator("POST", f"/v1/clients/shop/rotate?namespace={namespace}", {"overlapSeconds": 0}).json()
    assert Api(first["key"])("GET", "/v1/catalog").status_code == 401
    assert selectors.callback_secrets(namespace, "shop", now()) == [second["callbackSecret"]]


def test_an_agent_key_may_come_before_the_agent(operator, namespace, manifest):
    issued = operator("POST", "/v1/agents/a1/credentials", {"namespace": namespace})
    assert issued.status_code == 201
    assert Api(issued.json()["key"])("PUT", "/v1/agents/a1", manifest).status_code == 201
    pair = (issued.json()["accessKey"], issued.json()["secretKey"])
    assert selectors.agent_signing_key(namespace, "a1") == pair


def test_a_user_gets_a_password_once(operator):
    body = {"user": "ann", "role": "owner", "team": "team-a"}
    first, second = operator("POST", "/v1/users", body), operator("POST", "/v1/users", {**body, "team": "team-b"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert len(first.json()["password"]) >= 12
    assert "password" not in second.json()
    assert Membership.objects.get(user__username="ann").team == "team-b"


def test_every_change_is_audited_and_no_secret_is(operator, namespace):
    made = operator("POST", "/v1/clients", {**CLIENT, "namespace": namespace}).json()
    entries = operator("GET", f"/v1/audit?namespace={namespace}").json()["items"]
    assert (entries[0]["action"], entries[0]["object"]) == ("client.create", "client:shop")
    assert entries[0]["actor"].startswith("operator:")
    text = str(list(Audit.objects.values_list("before", "after")))
    assert not any(made[name] in text for name in ("key", "secretKey", "callbackSecret"))


def test_lists_come_in_pages(operator, namespace):
    for index in range(5):
        operator("POST", "/v1/clients", {"name": f"c{index}", "namespace": namespace})
    names, cursor = [], ""
    while cursor is not None:
        answer = operator("GET", f"/v1/clients?namespace={namespace}&limit=2&cursor={cursor}").json()
        names += [client["name"] for client in answer["items"]]
        cursor = answer["nextCursor"]
    assert names == ["c0", "c1", "c2", "c3", "c4"]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=x", "limit=9999", "limit=٣", "cursor=x", "cursor=%00", "cursor=4pyT"]
)
def test_a_bad_page_is_a_400(operator, query):
    answer = operator("GET", f"/v1/audit?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("path", ["/v1/audit", "/v1/clients", "/v1/agents"])
def test_a_list_refuses_a_misspelt_or_repeated_query_parameter(operator, path):
    for query in ("limt=1", "limit=1&limit=2"):
        answer = operator("GET", f"{path}?namespace=default&{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")
        assert query.partition("=")[0] in answer.json()["detail"]


def test_the_audit_comes_as_csv_and_as_lines_of_json(operator, namespace, monkeypatch):
    monkeypatch.setattr("registry.api.audit.STEP", 2)
    for index in range(5):
        operator("POST", "/v1/clients", {"name": f"c{index}", "namespace": namespace})
    query = f"/v1/audit?namespace={namespace}&action=client.create"
    rows = list(csv.DictReader(io.StringIO(operator("GET", f"{query}&format=csv").getvalue().decode())))
    lines = operator("GET", f"{query}&format=jsonl").getvalue().splitlines()
    names = [f"client:c{index}" for index in (4, 3, 2, 1, 0)]
    assert [row["object"] for row in rows] == names == [json.loads(line)["object"] for line in lines]
    assert json.loads(rows[0]["after"])["name"] == "c4"


def test_the_audit_in_another_format_is_a_400(operator):
    answer = operator("GET", "/v1/audit?format=xml")
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")

"""What is not one's own is not there."""

import uuid

import pytest

from common.clock import now
from registry.services import credentials, namespaces
from tests.registry.calls import Api

ALL = [
    ("GET", "/v1/agents/a1"),
    ("PUT", "/v1/agents/a1"),
    ("DELETE", "/v1/agents/a1"),
    ("GET", "/v1/agents/a1/revisions"),
    ("GET", "/v1/agents/a1/revisions/1/diff"),
    ("POST", "/v1/agents/a1/revisions/1/restore"),
    ("POST", "/v1/agents/a1/maintenance"),
    ("PUT", "/v1/agents/a1/secrets"),
    ("GET", "/v1/agents/a1/health"),
    ("PUT", "/v1/agents/a1/instances/i1"),
    ("DELETE", "/v1/agents/a1/instances/i1"),
    ("POST", "/v1/agents/a1/instances/i1/heartbeat"),
]
ADMIN_ONLY = [
    ("POST", "/v1/namespaces"),
    ("GET", "/v1/clients"),
    ("POST", "/v1/clients"),
    ("POST", "/v1/clients/shop/rotate"),
    ("POST", "/v1/agents/a1/credentials"),
    ("POST", "/v1/users"),
    ("GET", "/v1/audit"),
]


@pytest.mark.parametrize(("method", "path"), ALL)
def test_another_agent_finds_nothing(agent, manifest, namespace, method, path):
    agent("PUT", "/v1/agents/a1", manifest)
    other = Api(credentials.for_agent(namespace, "a2", actor="test", now=now()).key)
    assert other(method, path, manifest).status_code == 404


@pytest.mark.parametrize(("method", "path"), ALL)
def test_the_same_name_in_another_namespace_finds_nothing(agent, manifest, method, path):
    agent("PUT", "/v1/agents/a1", manifest)
    elsewhere = f"t-{uuid.uuid4().hex[:12]}"
    namespaces.create(elsewhere, actor="test", now=now())
    other = Api(credentials.for_agent(elsewhere, "a1", actor="test", now=now()).key)
    bodies = {"maintenance": {"on": True}, "secrets": {"a": "b"}, "i1": {}, "heartbeat": {}}
    answer = other(method, path, bodies.get(path.rpartition("/")[2], manifest))
    assert answer.status_code == (201 if (method, path) == ("PUT", "/v1/agents/a1") else 404), answer.content
    assert agent("GET", "/v1/agents/a1").json()["maintenance"] is False


@pytest.mark.parametrize(("method", "path"), ADMIN_ONLY)
def test_only_operators_set_things_up(agent, client_with, method, path):
    for who in (agent, client_with("tasks:write", "tasks:read", "catalog:read", "route")):
        assert who(method, path, {}).json()["code"] == "FORBIDDEN"


@pytest.mark.parametrize(("method", "path"), ALL + ADMIN_ONLY)
def test_nobody_gets_in_without_a_credential(db, method, path):
    assert Api(None)(method, path, {}).status_code == 401


def test_a_client_reads_agents_but_not_how_they_are_reached(agent, manifest, client_with):
    manifest["spec"]["endpoints"] = {"invoke": "http://127.0.0.1:9/x"}
    agent("PUT", "/v1/agents/a1", manifest)
    seen = client_with("catalog:read")("GET", "/v1/agents/a1")
    assert seen.status_code == 200
    assert b"127.0.0.1" not in seen.content
    assert b"127.0.0.1" in agent("GET", "/v1/agents/a1").content


def test_a_client_without_the_scope_is_forbidden(client_with):
    caller = client_with("tasks:write")
    assert [caller("GET", path).status_code for path in ("/v1/agents", "/v1/catalog")] == [403, 403]


def test_another_namespace_is_not_there(client_with, operator, namespace):
    caller = client_with("catalog:read")
    assert caller("GET", f"/v1/agents?namespace={namespace}").status_code == 200
    assert caller("GET", "/v1/agents?namespace=default").status_code == 404
    for unknown in ("no-such", "%00", "A B", ""):
        assert operator("GET", f"/v1/agents?namespace={unknown}").status_code == 404


@pytest.mark.parametrize("agent_id", ["%00", "..%2f", "a b", "é", "x" * 129, "-a", "%7B%7D"])
def test_a_malformed_id_is_404(operator, agent_id):
    answer = operator("GET", f"/v1/agents/{agent_id}")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")

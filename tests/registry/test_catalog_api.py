import pytest

from tests.registry.calls import Api


@pytest.fixture
def filled(agent, manifest):
    manifest["spec"]["tags"] = ["nlp"]
    manifest["spec"]["capabilities"].append(
        {"name": "ticket.classify", "description": "Sorts tickets", "sideEffects": True, "idempotent": True}
    )
    assert agent("PUT", "/v1/agents/a1", manifest).status_code == 201
    return agent


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["work", "ticket.classify"]),
        ("?q=ticket", ["ticket.classify"]),
        ("?q=SORTS+tickets", ["ticket.classify"]),
        ("?q=nlp", ["work", "ticket.classify"]),
        ("?q=a1", ["work", "ticket.classify"]),
        ("?q=nothing", []),
        ("?tag=nlp", ["work", "ticket.classify"]),
        ("?tag=other", []),
        ("?q=%25", []),
    ],
)
def test_the_catalog_is_searched_by_words_and_tag(filled, query, names):
    items = filled("GET", "/v1/catalog" + query).json()["items"]
    assert [item["ability"] for item in items] == names


def test_an_ability_without_a_route_of_its_own_is_named_so(filled, client_with):
    route = {"ability": "ticket.classify", "candidates": [{"agent": "a1"}]}
    client = client_with("admin", "catalog:read")
    assert client("PUT", "/v1/routes", {"routes": [route]}).status_code == 200
    expected = {"work": "implicit", "ticket.classify": "explicit"}
    for address in ("/v1/catalog", "/v1/abilities"):
        items = client("GET", address).json()["items"]
        assert {item["ability"]: item["route"] for item in items} == expected


def test_the_catalog_is_exported_as_tools(filled):
    tools = filled("GET", "/v1/catalog?format=openai-tools").json()["tools"]
    assert tools[1]["function"] == {
        "name": "ticket_classify",
        "description": "Sorts tickets",
        "parameters": {"type": "object", "properties": {}},
    }
    mcp = filled("GET", "/v1/catalog?format=mcp").json()["tools"]
    assert mcp[0]["inputSchema"]["required"] == ["text"]
    assert [tool["annotations"]["readOnlyHint"] for tool in mcp] == [True, False]


@pytest.mark.parametrize("query", ["?format=xml", "?q=%00", "?tag=%0a"])
def test_a_bad_parameter_is_a_400(filled, query):
    assert filled("GET", "/v1/catalog" + query).json()["code"] == "BAD_REQUEST"


@pytest.mark.parametrize(("query", "ids"), [("?tag=nlp", ["a1"]), ("?tag=x", []), ("?state=NEW", []), ("", ["a1"])])
def test_agents_are_listed_by_tag_and_state(filled, client_with, query, ids):
    items = client_with("catalog:read")("GET", "/v1/agents" + query).json()["items"]
    assert [item["agentId"] for item in items] == ids


def test_the_openapi_document_describes_every_address(db):
    document = Api(None)("GET", "/v1/openapi.json").json()
    described = {
        (path, method) for path, item in document["paths"].items() for method in item if method != "parameters"
    }
    assert ("/v1/agents/{agent_id}", "put") in described
    assert ("/v1/agents/{agent_id}/instances/{instance_id}/heartbeat", "post") in described
    put = document["paths"]["/v1/agents/{agent_id}"]["put"]
    assert {"application/json", "application/yaml"} <= put["requestBody"]["content"].keys()
    assert {"200", "201", "401", "404", "413", "415", "422"} <= put["responses"].keys()
    assert {"bearer", "signature"} <= document["components"]["securitySchemes"].keys()

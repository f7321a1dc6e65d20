import pytest

from common.clock import now
from tests.registry.calls import Api


@pytest.fixture
def filled(agent, manifest):
    manifest["spec"]["tags"] = ["nlp"]
    manifest["spec"]["capabilities"].append(
        {
            "name": "ticket.classify",
            "description": "Sorts tickets; 对工单进行分类",
            "sideEffects": True,
            "idempotent": True,
        }
    )
    assert agent("PUT", "/v1/agents/a1", manifest).status_code == 201
    return agent


def abilities(answer):
    return [item["ability"] for item in answer.json()["items"]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["ticket.classify", "work"]),
        ("?q=ticket", ["ticket.classify"]),
        ("?q=SORTS+tickets", ["ticket.classify"]),
        ("?q=%E5%B7%A5%E5%8D%95%E5%88%86%E7%B1%BB", ["ticket.classify"]),
        ("?q=nlp", ["ticket.classify", "work"]),
        ("?q=a1", ["ticket.classify", "work"]),
        ("?q=nothing", []),
        ("?tag=nlp", ["ticket.classify", "work"]),
        ("?tag=nlp&tag=other", []),
        ("?tag=other", []),
        ("?q=%25", []),
    ],
)
def test_the_catalog_is_searched_by_words_and_tag(filled, query, names):
    assert abilities(filled("GET", "/v1/catalog" + query)) == names


def test_an_ability_without_a_route_of_its_own_is_named_so(filled, client_with):
    route = {"ability": "ticket.classify", "candidates": [{"agent": "a1"}]}
    client = client_with("admin", "catalog:read")
    assert client("PUT", "/v1/routes", {"routes": [route]}).status_code == 200
    expected = {"work": "implicit", "ticket.classify": "explicit"}
    for address in ("/v1/catalog", "/v1/abilities"):
        items = client("GET", address).json()["items"]
        assert {item["ability"]: item["route"] for item in items} == expected


def test_a_route_under_another_name_is_an_ability_with_all_agents_behind_it(filled, operator, namespace, manifest):
    manifest["metadata"]["name"] = "a2"
    assert operator("PUT", f"/v1/agents/a2?namespace={namespace}", manifest).status_code == 201
    candidates = [{"agent": "a1", "capability": "work", "weight": 1}, {"agent": "a2", "capability": "work"}]
    routes = {"routes": [{"ability": "office.work", "candidates": candidates}]}
    assert operator("PUT", f"/v1/routes?namespace={namespace}", routes).status_code == 200
    (item,) = filled("GET", "/v1/catalog?q=office").json()["items"]
    assert (item["ability"], item["route"], item["capability"]) == ("office.work", "explicit", "work")
    assert [one["agentId"] for one in item["agents"]] == ["a1", "a2"]
    assert item["requestSample"] == {"text": "hello"}
    assert "office__work" in filled("GET", "/v1/catalog?format=openai-tools").json()["abilities"]


@pytest.mark.parametrize("kind", ["json", "openai-tools", "mcp"])
def test_a_client_sees_the_abilities_that_it_may_use(filled, namespace, kind):
    from registry.services import clients

    only = {"scopes": ["catalog:read"], "abilities": ["ticket.*"], "actor": "test", "now": now()}
    answer = Api(clients.create(namespace, "few", **only).issued.key)("GET", f"/v1/catalog?format={kind}").json()
    assert [tool_ability(one) for one in answer.get("items") or answer["tools"]] == ["ticket.classify"]


def tool_ability(shown):
    return shown.get("ability") or shown.get("name") or shown["function"]["name"].replace("__", ".")


def test_another_namespaces_abilities_are_not_there(filled, operator):
    assert operator("POST", "/v1/namespaces", {"name": "elsewhere"}).status_code == 201
    assert abilities(operator("GET", "/v1/catalog?namespace=elsewhere")) == []


def test_the_catalog_is_exported_as_tools(filled):
    answer = filled("GET", "/v1/catalog?format=openai-tools").json()
    assert answer["tools"][0]["function"] == {
        "name": "ticket__classify",
        "description": "Sorts tickets; 对工单进行分类",
        "parameters": {"type": "object", "properties": {}},
    }
    assert answer["abilities"] == {"ticket__classify": "ticket.classify", "work": "work"}
    mcp = filled("GET", "/v1/catalog?format=mcp").json()
    assert mcp["tools"][1]["inputSchema"]["required"] == ["text"]
    assert [tool["annotations"]["readOnlyHint"] for tool in mcp["tools"]] == [False, True]
    assert mcp.keys() == {"tools"}


@pytest.mark.parametrize("kind", ["json", "openai-tools", "mcp"])
def test_every_format_is_paged_like_other_lists(filled, kind):
    first = filled("GET", f"/v1/catalog?format={kind}&limit=1").json()
    second = filled("GET", f"/v1/catalog?format={kind}&limit=1&cursor={first['nextCursor']}").json()
    names = [tool_ability((one.get("items") or one["tools"])[0]) for one in (first, second)]
    assert names == ["ticket.classify", "work"]
    assert second.get("nextCursor") is None


@pytest.mark.parametrize(
    "query",
    [
        "?format=xml",
        "?q=%00",
        "?tag=%0a",
        "?formatt=x",
        "?limit=0",
        "?cursor=%C3%A9",
        "?cursor=_w==",
        "?q=a&q=b",
        "?a%00=1",
    ],
)
def test_a_bad_parameter_is_a_400(filled, query):
    assert filled("GET", "/v1/catalog" + query).json()["code"] == "BAD_REQUEST"


def test_the_error_names_what_is_wrong_and_what_would_be_right(filled):
    assert "json, openai-tools, mcp" in filled("GET", "/v1/catalog?format=xml").json()["detail"]
    assert "did you mean format?" in filled("GET", "/v1/catalog?formatt=mcp").json()["detail"]


def test_a_page_takes_few_queries(filled, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):  # seven of them read a snapshot, which every process keeps
        assert filled("GET", "/v1/catalog?q=ticket").status_code == 200


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

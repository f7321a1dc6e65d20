"""Route tables by API, and asking who would get a task."""

import pytest

from tests.routing.api.conftest import problem

TABLE = """
apiVersion: agent-reach/v1
kind: RouteTable
routes:
  - ability: say.echo
    strategy: round_robin
    candidates: [{agent: worker, capability: echo, weight: 100, version: 1.10}, {agent: later, weight: 0}]
    retry: {maxAttempts: 2, backoffMs: [100, 200], jitterShare: 0.2}
"""


@pytest.fixture
def put(platform):
    def putting(body, path="/v1/routes", kind="application/json", query=""):
        raw = body.encode() if isinstance(body, str) else body
        return platform.operator("PUT", f"{path}?namespace={platform.namespace}{query}", raw, kind)

    return putting


@pytest.fixture
def get(platform):
    return lambda path: platform.operator("GET", f"{path}?namespace={platform.namespace}")


def route(**more):
    return {"ability": "say.echo", "candidates": [{"agent": "worker", "capability": "echo"}], **more}


def test_a_yaml_table_is_kept_as_written(put, get):
    answer = put(TABLE, kind="application/yaml")
    assert answer.status_code == 200, answer.content
    assert answer.json()["changes"][0]["change"] == "created"
    assert answer.json()["warnings"] == ["agent later is not registered (yet)"]
    [kept] = get("/v1/routes/say.echo").json()["routes"]
    assert kept["candidates"][0] == {"agent": "worker", "capability": "echo", "version": "1.10", "weight": 100}
    assert kept["retry"] == {"maxAttempts": 2, "backoffMs": [100, 200], "jitterShare": 0.2}
    assert kept["strategy"] == "round_robin"


def test_a_dry_run_shows_the_difference_and_changes_nothing(put, get):
    answer = put({"routes": [route()]}, query="&dryRun=1")
    assert (answer.json()["dryRun"], answer.json()["changes"][0]["change"]) == (True, "created")
    assert get("/v1/routes").json()["routes"] == []


def test_the_same_table_again_changes_nothing_and_another_route_stays(put, get):
    put({"routes": [route(), route(ability="other")]})
    answer = put({"routes": [route()]})
    assert answer.json()["changes"][0]["change"] == "unchanged"
    assert [one["ability"] for one in get("/v1/routes").json()["routes"]] == ["other", "say.echo"]


@pytest.mark.parametrize("body", [{"routes": [route()]}, route(), {"candidates": route()["candidates"]}])
def test_one_route_is_put_as_a_table_or_by_itself(put, body):
    assert put(body, "/v1/routes/say.echo").status_code == 201
    assert put(body, "/v1/routes/say.echo").status_code == 200


def test_the_namespace_may_stand_in_the_table(platform):
    body = {"namespace": platform.namespace, "routes": [route()]}
    assert platform.operator("PUT", "/v1/routes/say.echo", body).status_code == 201
    problem(platform.operator("PUT", "/v1/routes?namespace=default", body), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"routes": [route(candidates=[])]}, "/routes/0/candidates"),
        ({"routes": [route(candidates=[{"agent": "worker", "weight": 0}])]}, "/routes/0/candidates"),
        ({"routes": [route(candidates=[{"agent": "worker", "weight": True}])]}, "/routes/0/candidates/0/weight"),
        ({"routes": [route(candidates=[{"agent": "worker", "weight": -1}])]}, "/routes/0/candidates/0/weight"),
        ({"routes": [route(candidates=[{"agent": "a"}, {"agent": "a"}])]}, "/routes/0/candidates/1"),
        ({"routes": [route(), route()]}, "/routes/1/ability"),
        ({"routes": [route(strategy="luck")]}, "/routes/0/strategy"),
        ({"routes": [route(retry={"retryableErrors": ["OOPS"]})]}, "/routes/0/retry/retryableErrors/0"),
        ({"kind": "AgentManifest", "routes": []}, "/kind"),
        ({"routes": [], "extra": 1}, "/extra"),
    ],
)
def test_a_bad_table_is_422_with_a_pointer_and_changes_nothing(put, get, body, pointer):
    document = problem(put(body), 422, "INVALID")
    assert pointer in [error["pointer"] for error in document["errors"]]
    assert get("/v1/routes").json()["routes"] == []


def test_a_route_under_another_name_is_refused(put):
    problem(put({"routes": [route()]}, "/v1/routes/other"), 422, "INVALID")
    problem(put({"routes": [route(), route(ability="b")]}, "/v1/routes/say.echo"), 422, "INVALID")


def test_broken_yaml_is_400_with_its_place(put):
    document = problem(put("routes:\n  - a: b: c", kind="application/yaml"), 400, "MALFORMED_YAML")
    assert document["line"] == 2


def test_an_unknown_route_is_404(get):
    problem(get("/v1/routes/nobody"), 404, "NOT_FOUND")
    problem(get("/v1/routes/%00"), 404, "NOT_FOUND")


def test_routes_are_for_operators(shop):
    problem(shop("GET", "/v1/routes"), 403, "FORBIDDEN")
    problem(shop("PUT", "/v1/routes", {"routes": []}), 403, "FORBIDDEN")


def test_a_new_route_takes_effect_at_once(put, shop):
    put({"routes": [route()]})
    body = {"target": {"ability": "say.echo"}, "payload": {}}
    assert shop("POST", "/v1/reach", body).status_code == 202


def test_who_would_get_it_is_answered_without_sending(shop):
    answer = shop("POST", "/v1/route", {"ability": "echo", "explain": True})
    document = answer.json()
    assert answer.status_code == 200, document
    assert (document["ability"], document["matchType"]) == ("echo", "exact")
    assert document["decision"]["candidates"][0]["agentId"] == "worker"
    assert "endpoint" not in document
    assert shop("GET", "/v1/tasks").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"intent": "say it"}, 404, "NO_MATCH"),
        ({"ability": "no.such"}, 404, "ABILITY_NOT_REGISTERED"),
        ({}, 422, "INVALID"),
        ({"ability": "echo", "intent": "x"}, 422, "INVALID"),
        ({"ability": "echo", "namespace": "default"}, 404, "NOT_FOUND"),
    ],
)
def test_a_question_that_has_no_answer_says_why(shop, body, status, code):
    problem(shop("POST", "/v1/route", body), status, code)


def test_abilities_are_listed_with_who_serves_them(platform, shop):
    [one] = shop("GET", "/v1/abilities").json()["items"]
    assert (one["ability"], one["route"], one["agents"][0]["agentId"]) == ("echo", "implicit", "worker")
    assert platform.another(abilities=["x"])("GET", "/v1/abilities").json()["items"] == []

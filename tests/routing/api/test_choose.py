"""Asking who would get a task; taking only the address and reporting the outcome."""

import uuid

import pytest

from common import redis
from common.clock import now
from common.json import dumps
from registry.models import Instance
from registry.services import evidence, manifests
from routing import breaker
from routing.limits import slots
from tests.routing.api.conftest import MANIFEST, problem

SCOPES = ["route", "route:endpoint"]


@pytest.fixture(autouse=True)
def _own_redis(settings, monkeypatch):
    settings.REACH_REDIS_PREFIX = f"t-{uuid.uuid4().hex[:12]}"
    monkeypatch.setattr(redis, "_client", redis.client(socket_timeout=10))
    monkeypatch.setattr(redis, "_down_until", 0.0)
    slots.begin_epoch()


@pytest.fixture
def caller(platform):
    return platform.another("caller", scopes=SCOPES)


@pytest.fixture
def declare(platform):
    """Registers an agent anew, with changes to its spec."""

    def declaring(agent="worker", **spec):
        manifest = {**MANIFEST, "metadata": {"name": agent, "version": "2"}, "spec": {**MANIFEST["spec"], **spec}}
        by = {"actor": "test", "now": now()}
        manifests.put(platform.namespace, agent, dumps(manifest), "application/json", strict=False, **by)

    return declaring


def ask(who, **body):
    answer = who("POST", "/v1/route", {"ability": "echo", **body})
    assert answer.status_code == 200, answer.content
    return answer.json()


def report(who, decision_id, **body):
    return who("POST", f"/v1/route/{decision_id}/outcome", {"ok": True, **body})


def running(platform):
    return slots.count([(platform.namespace, "worker", "default")]).popitem()[1]


def test_the_answer_says_how_to_ask_the_agent(declare, shop):
    capability = {"name": "echo", "inputSchema": {"n": "integer"}, "requestSample": {"n": 1}, "path": "/say"}
    declare(capabilities=[capability])
    hint = ask(shop)["schemaHint"]
    assert (hint["action"], hint["method"], hint["path"], hint["requestSample"]) == ("echo", "POST", "/say", {"n": 1})
    assert hint["inputSchema"]["properties"]["n"] == {"type": "integer"}


def test_the_others_who_could_are_named_with_their_scores(platform, declare, shop):
    declare("second")
    Instance.objects.filter(agent__namespace=platform.namespace).update(state="ONLINE")
    document = ask(shop, explain=True)
    assert document["score"] == document["alternatives"][0]["score"] == 1.0
    assert {document["matchedAgent"], document["alternatives"][0]["agentId"]} == {"worker", "second"}


def test_nobody_able_is_an_answer_too(platform, declare, shop):
    platform.operator("POST", f"/v1/agents/worker/maintenance?namespace={platform.namespace}", {"on": True})
    document = ask(shop, explain=True)
    assert (document["matchedAgent"], document["schemaHint"]) == (None, None)
    assert document["decision"]["candidates"][0]["rejected"] == "MAINTENANCE"


def test_tags_say_who_of_an_ability_and_alone_which_ability(shop):
    assert ask(shop, tags=["text"])["matchType"] == "exact"
    assert ask(shop, tags=["text"], mode="tag")["matchType"] == "tag"
    assert ask(shop, tags=["image"])["matchedAgent"] is None
    document = shop("POST", "/v1/route", {"tags": ["text"]}).json()
    assert (document["ability"], document["matchType"]) == ("echo", "tag")


def test_words_get_suggestions_from_what_the_client_may_use(platform, shop):
    document = problem(shop("POST", "/v1/route", {"intent": "echo something"}), 404, "NO_MATCH")
    assert document["suggestions"] == [{"ability": "echo", "score": 0.5}]
    stranger = platform.another("stranger", abilities=["x"])
    assert problem(stranger("POST", "/v1/route", {"intent": "echo"}), 404, "NO_MATCH")["suggestions"] == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({"mode": "guess"}, "/mode"), ({"sessionId": " s"}, "/sessionId"), ({"network": ""}, "/network")],
)
def test_a_bad_field_is_named(shop, body, pointer):
    document = problem(shop("POST", "/v1/route", {"ability": "echo", **body}), 422, "INVALID")
    assert document["errors"][0]["pointer"] == pointer


def test_a_session_gets_the_same_instance_each_time(declare, shop):
    declare("second")
    assert len({ask(shop, sessionId="s-1")["matchedAgent"] for _ in range(10)}) == 1


def test_the_address_is_for_those_with_the_scope_and_takes_a_slot(platform, shop, caller):
    assert "endpoint" not in ask(shop)
    assert (
        "endpoint"
        not in platform.operator("POST", f"/v1/route?namespace={platform.namespace}", {"ability": "echo"}).json()
    )
    assert running(platform) == 0
    document = ask(caller)
    assert (document["endpoint"], document["leaseMs"]) == ("http://127.0.0.1:9/", 30_000)
    assert running(platform) == 1


def test_the_address_is_that_of_the_callers_network(platform, caller):
    body = {"invokeUrl": "http://127.0.0.1:9/in", "networks": {"office": "http://127.0.0.1:9/office"}}
    assert platform.worker("PUT", "/v1/agents/worker/instances/i1", body).status_code == 201
    Instance.objects.filter(agent__namespace=platform.namespace, implicit=True).delete()
    assert ask(caller, network="office")["endpoint"] == "http://127.0.0.1:9/office"
    assert ask(caller)["endpoint"] == "http://127.0.0.1:9/in"
    away = ask(caller, network="lab", explain=True)
    assert (away["matchedAgent"], away["decision"]["candidates"][0]["rejected"]) == (None, "NETWORK")


def test_leases_fill_an_instance_like_calls_and_an_outcome_makes_room(declare, caller):
    declare(limits={"maxConcurrency": 2})
    first = ask(caller)
    full = ask(caller, explain=True)
    assert (full["matchedAgent"], full["endpoint"]) == (None, None)
    assert full["decision"]["candidates"][0]["rejected"] == "BUSY"
    assert report(caller, first["decisionId"]).json()["counted"] is True
    assert ask(caller)["matchedAgent"] == "worker"


def test_leases_count_for_what_the_ability_may_have_under_way(platform, caller):
    route = {"candidates": [{"agent": "worker"}], "limits": {"maxInflight": 1}}
    assert platform.operator("PUT", f"/v1/routes/echo?namespace={platform.namespace}", route).status_code == 201
    made = ask(caller)["decisionId"]
    full = ask(caller, explain=True)
    assert (full["matchedAgent"], full["decision"]["candidates"][0]["rejected"]) == (None, "ABILITY_BUSY")
    report(caller, made)
    assert ask(caller)["matchedAgent"] == "worker"


def test_an_instance_that_filled_up_meanwhile_is_passed_over(declare, caller, monkeypatch):
    declare(limits={"maxConcurrency": 1})
    declare("second")
    monkeypatch.setattr("routing.services.route_leases.running", lambda *_: {})  # as if counted a moment too early
    assert {ask(caller)["matchedAgent"] for _ in range(6)} == {"worker", "second"}
    assert ask(caller)["matchedAgent"] == "second"


def test_a_lease_ends_by_itself(platform, caller, monkeypatch):
    monkeypatch.setattr("routing.services.route_leases.lease_ms", lambda seen: 1)
    ask(caller)
    place = (platform.namespace, "worker", "default")
    assert slots.count([place], now=int(now().timestamp() * 1000) + 60_000)[place] == 0


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        ({"ok": True, "latencyMs": 120}, [(True, 120.0, "")]),
        ({"ok": False, "latencyMs": 5000, "code": "TIMEOUT"}, [(False, None, "TIMEOUT")]),
        ({"ok": False, "code": "REJECTED"}, []),
    ],
)
def test_an_outcome_counts_for_health_once(platform, caller, outcome, kept):
    made = ask(caller)["decisionId"]
    assert [report(caller, made, **outcome).json()["counted"] for _ in range(3)] == [True, False, False]
    pk = Instance.objects.get(agent__namespace=platform.namespace).pk
    assert [(one.ok, one.ms, one.code) for one in evidence.read([pk])[pk].calls] == kept
    assert running(platform) == 0


@pytest.mark.parametrize(
    ("outcome", "served"),
    [
        ({"ok": False, "code": "500"}, {"caller": None, "other": "worker"}),
        ({"ok": False, "code": "TIMEOUT"}, {"caller": None, "other": "worker"}),
        ({"ok": False, "code": "429"}, {"caller": "worker", "other": "worker"}),
        ({"ok": False, "code": "403"}, {"caller": "worker", "other": "worker"}),
        ({"ok": True}, {"caller": "worker", "other": "worker"}),
    ],
)
def test_failures_that_a_caller_reports_open_its_own_breaker(platform, caller, outcome, served):
    for _ in range(3):
        report(caller, ask(caller)["decisionId"], **outcome)
    others = {"caller": caller, "other": platform.another("other")}
    assert {name: ask(who)["matchedAgent"] for name, who in others.items()} == served
    breaker.view().close()


def test_an_outcome_is_for_who_got_the_address_to_report(platform, caller, shop):
    made = ask(caller)["decisionId"]
    problem(report(platform.another("third", scopes=SCOPES), made), 404, "NOT_FOUND")
    problem(report(caller, uuid.uuid4()), 404, "NOT_FOUND")
    problem(report(caller, "nonsense"), 404, "NOT_FOUND")
    problem(report(shop, made), 403, "FORBIDDEN")
    problem(report(caller, made, latencyMs=-1), 422, "INVALID")


def test_without_redis_the_address_is_given_and_an_outcome_is_asked_for_later(caller, monkeypatch):
    made = ask(caller)["decisionId"]
    monkeypatch.setattr(redis, "_down_until", float("inf"))
    document = ask(caller)
    assert (document["endpoint"], document["leaseMs"]) == ("http://127.0.0.1:9/", None)
    assert problem(report(caller, made), 503, "NOT_READY")

"""POST /v1/reach and /v1/reach/batch: every answer of the contract."""

import json
import uuid

import pytest

from routing.handoff import WaitForTask
from tests.registry.calls import Api
from tests.routing.api.conftest import problem, request

UNKNOWN = "7d444840-9dc0-11d1-b245-5ffdce74fad2"


def test_a_task_is_accepted_with_everything_the_contract_names(shop):
    answer = shop("POST", "/v1/reach", request(correlationId="order-1"))
    body = answer.json()
    assert answer.status_code == body["code"] == 202
    assert (body["state"], body["correlationId"]) == ("RECEIVED", "order-1")
    assert uuid.UUID(body["taskId"]).version == 7
    assert answer["Location"] == f"/v1/tasks/{body['taskId']}"
    assert body["statusUrl"].endswith(answer["Location"])
    assert "Idempotent-Replayed" not in answer


def test_the_same_again_is_the_same_task(shop):
    first = shop("POST", "/v1/reach", request(correlationId="k"))
    again = shop("POST", "/v1/reach", json.dumps(request(correlationId="k"), indent=2).encode())
    assert again.json()["taskId"] == first.json()["taskId"]
    assert again["Idempotent-Replayed"] == "true"


def test_the_same_key_with_other_content_is_refused(shop):
    shop("POST", "/v1/reach", request(correlationId="k"))
    problem(shop("POST", "/v1/reach", request(correlationId="k", payload={"n": 2})), 422, "IDEMPOTENCY_MISMATCH")


def test_a_replay_of_an_ended_task_answers_with_its_present_state(shop):
    first = shop("POST", "/v1/reach", request(correlationId="k")).json()
    shop("POST", f"/v1/tasks/{first['taskId']}/cancel")
    assert shop("POST", "/v1/reach", request(correlationId="k")).json()["state"] == "CANCELLED"


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ("wait=10", "wait=10"),
        ("respond-async, wait=99", "wait=30"),
        ('Wait="5"; x', "wait=5"),
        ("wait=1000000000", "wait=30"),
    ],
)
def test_a_wait_is_granted_up_to_thirty_seconds(shop, prefer, applied):
    answer = shop("POST", "/v1/reach", request(), HTTP_PREFER=prefer)
    assert answer["Preference-Applied"] == applied
    assert isinstance(answer.hand_off, WaitForTask)


@pytest.mark.parametrize("prefer", ["wait=0", "wait=-1", "wait=x", "wait", "\xb9", "wait=²"])
def test_a_wait_that_makes_no_sense_is_ignored(shop, prefer):
    answer = shop("POST", "/v1/reach", request(), HTTP_PREFER=prefer)
    assert answer.status_code == 202
    assert "Preference-Applied" not in answer


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"surprise": 1}, "/surprise"),
        ({"target": {}}, "/target"),
        ({"target": {"ability": "echo", "intent": "both"}}, "/target"),
        ({"target": {"ability": "echo", "x": 1}}, "/target/x"),
        ({"payload": [1]}, "/payload"),
        ({"messageType": "task.result"}, "/messageType"),
        ({"schemaVersion": "2.0"}, "/schemaVersion"),
        ({"timeoutMs": "5"}, "/timeoutMs"),
        ({"timeoutMs": True}, "/timeoutMs"),
        ({"timeoutMs": 86_400_001}, "/timeoutMs"),
        ({"ttlMs": 0}, "/ttlMs"),
        ({"timeoutBudgetMs": 10**30}, "/timeoutBudgetMs"),
        ({"metadata": {"priority": "urgent"}}, "/metadata/priority"),
        ({"traceId": "has space"}, "/traceId"),
        ({"correlationId": " a"}, "/correlationId"),
        ({"correlationId": "a\u0007"}, "/correlationId"),
        ({"correlationId": "a\n"}, "/correlationId"),
        ({"correlationId": "a\u3000"}, "/correlationId"),
        ({"correlationId": "a\u202eb"}, "/correlationId"),
        ({"correlationId": ""}, "/correlationId"),
        ({"sessionId": "x" * 129}, "/sessionId"),
        ({"parentTaskId": "1"}, "/parentTaskId"),
        ({"retry": {"maxAttempts": 0}}, "/retry/maxAttempts"),
        ({"notBefore": "tomorrow"}, "/notBefore"),
        ({"notBefore": "2026-02-30T00:00:00Z"}, "/notBefore"),
        ({"notBefore": "9999-12-31T23:59:59Z"}, "/notBefore"),
        ({"callback": {"type": "http"}}, "/callback"),
        ({"callback": {"type": "stream", "url": "https://x"}}, "/callback"),
        ({"callback": {"type": "http", "url": "https://x", "events": ["middle"]}}, "/callback/events/0"),
        ({"fallback": {"mode": "guess"}}, "/fallback/mode"),
    ],
)
def test_a_bad_field_is_named_by_its_pointer(shop, fields, pointer):
    document = problem(shop("POST", "/v1/reach", request(**fields)), 422, "INVALID")
    assert pointer in [error["pointer"] for error in document["errors"]]


@pytest.mark.parametrize("name", ["a", "order 10086", "\u5de5\u5355-1", "\U0001f600", "x" * 128, "a/b?c#d%00"])
def test_a_correlation_id_may_be_any_printable_text(shop, name):
    assert shop("POST", "/v1/reach", request(correlationId=name)).json()["correlationId"] == name


def test_a_callback_token_is_not_repeated_back(shop):
    callback = {"type": "http", "url": "https://example.com/", "authToken": "s3cret\u0001"}
    answer = shop("POST", "/v1/reach", request(callback=callback))
    problem(answer, 422, "INVALID")
    assert b"s3cret" not in answer.content


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"target":{"ability":"x"},"payload":{"x":NaN}}',
        b'{"target":{"ability":"x"},"payload":{"x":1e400}}',
        b'{"target":{"ability":"x"},"payload":{"x":"a\\u0000b"}}',
        b'{"target":{"ability":"x"},"payload":{"t":"\\ud83d"}}',
        b'{"target":{"ability":"x"},"payload":{"a":1,"a":2}}',
        b'{"target":{"ability":"x"},"payload":{"d":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b"{} x",
    ],
)
def test_malformed_json_is_400(shop, raw):
    problem(shop("POST", "/v1/reach", raw), 400, "MALFORMED_JSON")


def test_who_may_not_read_tasks_is_not_shown_one_by_waiting(platform):
    writer = platform.another(scopes=["tasks:write"])
    answer = writer("POST", "/v1/reach", request(), HTTP_PREFER="wait=5")
    assert (answer.status_code, hasattr(answer, "hand_off")) == (202, False)
    assert "Preference-Applied" not in answer


def test_a_task_belongs_to_the_trace_of_its_request(shop, monkeypatch):
    monkeypatch.setattr("common.errors.new_trace_id", lambda: "ab" * 16)
    assert shop("POST", "/v1/reach", request()).json()["traceId"] == "ab" * 16
    batch = shop("POST", "/v1/reach/batch", {"tasks": [request(), request(traceId="own")]}).json()["items"]
    assert [item["traceId"] for item in batch] == ["ab" * 16, "own"]


def test_a_traceparent_names_the_trace_and_a_broken_one_does_not(shop):
    given = "00-" + "cd" * 16 + "-" + "12" * 8 + "-01"
    assert shop("POST", "/v1/reach", request(), HTTP_TRACEPARENT=given).json()["traceId"] == "cd" * 16
    broken = given.replace("-01", "-zz")
    assert shop("POST", "/v1/reach", request(), HTTP_TRACEPARENT=broken).json()["traceId"] != "cd" * 16


@pytest.mark.parametrize("raw", [b"[]", b'"x"', b"1", b"null"])
@pytest.mark.parametrize(
    ("method", "path", "who"),
    [
        ("POST", "/v1/reach", "shop"), ("POST", "/v1/reach/batch", "shop"), ("POST", "/v1/route", "shop"),
        ("POST", f"/v1/tasks/{UNKNOWN}/receipt", "worker"), ("POST", f"/v1/tasks/{UNKNOWN}/progress", "worker"),
        ("POST", f"/v1/tasks/{UNKNOWN}/result", "worker"), ("PUT", "/v1/agents/worker", "worker"),
        ("PUT", "/v1/agents/worker/instances/i", "worker"), ("POST", "/v1/namespaces", "operator"),
        ("POST", "/v1/agents/worker/instances/default/heartbeat", "worker"), ("POST", "/v1/clients", "operator"),
        ("PUT", "/v1/routes?namespace={namespace}", "operator"), ("POST", "/v1/callbacks/redeliver", "operator"),
        ("PUT", "/v1/routes/echo?namespace={namespace}", "operator"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_object_is_400_everywhere(platform, method, path, who, raw):
    document = problem(
        getattr(platform, who)(method, path.format(namespace=platform.namespace), raw), 400, "MALFORMED_JSON"
    )
    assert "object" in document["detail"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"fallback": {"substitutes": ["x"] * 1000}}, "/fallback/substitutes"),
        ({"target": {"ability": "echo", "tags": ["x"] * 1000}}, "/target/tags"),
        ({"target": {"ability": "echo", "requires": {f"k{n}": 1 for n in range(1000)}}}, "/target/requires"),
        ({"callback": {"type": "http", "url": "https://x", "events": ["final"] * 1000}}, "/callback/events"),
        ({"payload": {f"k{n}": n for n in range(5000)}, "timeoutMs": "5"}, "/timeoutMs"),
    ],
)
def test_a_bad_field_of_a_large_request_is_named_too(shop, fields, pointer):
    document = problem(shop("POST", "/v1/reach", request(**fields)), 422, "INVALID")
    assert pointer in [error["pointer"] for error in document["errors"]]


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/json; charset=nope",
        "application/json; charset=ibm037",
        "application/json; charset=utf-16",
        "",
    ],
)
def test_other_media_types_and_charsets_are_415(shop, kind):
    problem(shop("POST", "/v1/reach", json.dumps(request()).encode(), kind), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_charset_of_utf_8_is_fine(shop):
    assert shop("POST", "/v1/reach", request(), 'application/json; charset="UTF-8"').status_code == 202


def test_other_methods_are_405_and_say_what_is_allowed(shop):
    answer = shop("DELETE", "/v1/reach")
    problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert "POST" in answer["Allow"]


@pytest.mark.parametrize("accept", ["application/xml", "image/png", "*/*;q=0", "application/json;q=0, */*", "\xb9"])
def test_an_answer_that_cannot_be_given_is_406(shop, accept):
    problem(shop("POST", "/v1/reach", request(), HTTP_ACCEPT=accept), 406, "NOT_ACCEPTABLE")


@pytest.mark.parametrize("accept", ["", " ", "*/*", "application/*;q=0.1", "text/html, application/json;charset=utf-8"])
def test_an_answer_is_given_where_json_is_accepted(shop, accept):
    assert shop("POST", "/v1/reach", request(), HTTP_ACCEPT=accept).status_code == 202


@pytest.mark.parametrize("key", [None, "wrong", "é", "a b", "x" * 100_000, ""])
def test_a_missing_or_wrong_key_is_401(platform, key):
    problem(Api(key)("POST", "/v1/reach", request()), 401, "UNAUTHENTICATED")


def test_a_client_without_the_scope_is_403(platform):
    reader = platform.another(scopes=["tasks:read"])
    problem(reader("POST", "/v1/reach", request()), 403, "FORBIDDEN")


def test_an_ability_that_is_not_the_clients_is_403(platform):
    narrow = platform.another(abilities=["ticket.*"])
    problem(narrow("POST", "/v1/reach", request()), 403, "ABILITY_NOT_ALLOWED")


def test_an_unknown_ability_is_404(shop):
    problem(shop("POST", "/v1/reach", request(target={"ability": "no.such"})), 404, "ABILITY_NOT_REGISTERED")


def test_an_intent_that_means_nothing_for_certain_gets_the_nearest_suggestions(platform, shop):
    document = problem(shop("POST", "/v1/reach", request(target={"intent": "echo the text"})), 404, "NO_MATCH")
    assert document["suggestions"] == [{"ability": "echo", "score": 0.6667}]
    narrow = platform.another(abilities=["ticket.*"])
    assert (
        problem(narrow("POST", "/v1/reach", request(target={"intent": "echo"})), 404, "NO_MATCH")["suggestions"] == []
    )


@pytest.mark.parametrize("target", [{"intent": "echo"}, {"intent": "say it again", "tags": ["text"]}])
def test_an_intent_that_names_an_ability_or_whose_tags_only_one_has_is_run(shop, target):
    answer = shop("POST", "/v1/reach", request(target=target))
    assert answer.status_code == 202, answer.content
    assert shop("GET", f"/v1/tasks/{answer.json()['taskId']}").json()["ability"] == "echo"
    shop("POST", f"/v1/tasks/{answer.json()['taskId']}/cancel", {})


def test_a_payload_against_the_input_schema_is_named(shop):
    document = problem(shop("POST", "/v1/reach", request(payload={"n": "three"})), 422, "PAYLOAD_INVALID")
    assert document["errors"][0]["pointer"] == "/payload/n"


def test_another_namespace_is_404(platform, shop):
    problem(shop("POST", "/v1/reach?namespace=default", request()), 404, "NOT_FOUND")


def test_an_operator_submits_into_a_namespace_and_finds_the_task_there(platform):
    answer = platform.operator("POST", f"/v1/reach?namespace={platform.namespace}", request())
    assert answer.status_code == 202
    assert platform.operator("GET", answer["Location"]).status_code == 200


def test_one_bad_item_does_not_spoil_a_batch(shop):
    good = json.dumps(request()).encode()
    items = [good, b'{"payload":1}', b'{"a":1,"a":2}', json.dumps(request(target={"ability": "no"})).encode(), good]
    answer = shop("POST", "/v1/reach/batch", b'{"tasks":[' + b",".join(items) + b"]}")
    found = answer.json()["items"]
    assert answer.status_code == 200
    assert [item["index"] for item in found] == [0, 1, 2, 3, 4]
    assert [item["status"] for item in found] == [202, 422, 400, 404, 202]
    assert [item["error"]["code"] for item in found[1:4]] == ["INVALID", "MALFORMED_JSON", "ABILITY_NOT_REGISTERED"]
    assert found[0]["taskId"] != found[4]["taskId"]


@pytest.mark.parametrize(
    "envelope", [b'{"tasks":1}', b"{}", b'{"tasks":[],"x":1}', b'{"tasks":[' + b"1," * 500 + b"1]}"]
)
def test_a_bad_envelope_is_422(shop, envelope):
    problem(shop("POST", "/v1/reach/batch", envelope), 422, "INVALID")


@pytest.mark.parametrize(
    "envelope", [b"{", b'{"tasks":[1,]}', b'{"tasks":[],"tasks":[]}', b'{"tasks":' + b"[" * 90_000]
)
def test_a_malformed_envelope_is_400(shop, envelope):
    problem(shop("POST", "/v1/reach/batch", envelope), 400, "MALFORMED_JSON")


def test_an_empty_batch_is_answered_with_nothing(shop):
    assert shop("POST", "/v1/reach/batch", {"tasks": []}).json() == {"items": []}

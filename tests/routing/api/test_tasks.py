"""Reading and steering tasks by API."""

import csv
import datetime as dt
import io
import uuid

import pytest

from common.clock import now, rfc3339
from routing.handoff import TaskEvents
from tests.routing.api.conftest import attempt, problem

BAD_IDS = [
    "7d444840-9dc0-11d1-b245-5ffdce74fad2", "abc", "1", "-" * 36, "%00", "..%2f", "null", "x" * 5000, "%7B7d444840-9dc0-11d1-b245-5ffdce74fad2%7D",
    "urn:uuid:7d444840-9dc0-11d1-b245-5ffdce74fad2", "%ff",
]  # fmt: skip
ACTIONS = [("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/callback/redeliver")]


def test_a_task_reads_as_the_contract_says(shop, submit):
    task = shop("GET", f"/v1/tasks/{submit(correlationId='c', metadata={'priority': 'high', 'x': 1.50})}").json()
    assert (task["state"], task["ability"], task["priority"], task["correlationId"]) == (
        "RECEIVED",
        "echo",
        "high",
        "c",
    )
    assert task["metadata"] == {"priority": "high", "x": 1.5}
    assert (task["result"], task["error"], task["endedAt"], task["late"]) == (None, None, None, None)
    assert task["callback"] == {"state": "NONE", "attempts": 0, "nextAttemptAt": None, "lastError": None}
    assert task["createdAt"].endswith("Z")


@pytest.mark.parametrize(("method", "action"), ACTIONS)
@pytest.mark.parametrize("bad", BAD_IDS)
def test_a_malformed_or_unknown_id_is_404(shop, method, action, bad):
    problem(shop(method, f"/v1/tasks/{bad}{action}"), 404, "NOT_FOUND")


@pytest.mark.parametrize(("method", "action"), ACTIONS)
def test_anothers_task_is_404(platform, submit, method, action):
    problem(platform.another()(method, f"/v1/tasks/{submit()}{action}"), 404, "NOT_FOUND")


def test_an_id_in_upper_case_is_unknown(shop, submit):
    assert shop("GET", f"/v1/tasks/{submit().upper()}").status_code == 404


def test_a_task_whose_time_is_over_ends_when_it_is_read(shop, submit, monkeypatch):
    task_id = submit(timeoutBudgetMs=1000)
    monkeypatch.setattr("routing.api.tasks.now", lambda: now() + dt.timedelta(seconds=2))
    task = shop("GET", f"/v1/tasks/{task_id}").json()
    assert task["state"] == "TIMEOUT"
    assert task["endedAt"]


def test_a_cancelled_task_is_answered_and_cannot_be_cancelled_again(shop, submit):
    task_id = submit()
    answer = shop("POST", f"/v1/tasks/{task_id}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "CANCELLED")
    problem(shop("POST", f"/v1/tasks/{task_id}/cancel"), 409, "STATE_CONFLICT")


def test_a_failed_task_is_tried_again_and_an_open_one_is_not(shop, submit):
    task_id = submit()
    problem(shop("POST", f"/v1/tasks/{task_id}/retry"), 409, "STATE_CONFLICT")
    shop("POST", f"/v1/tasks/{task_id}/cancel")
    answer = shop("POST", f"/v1/tasks/{task_id}/retry")
    assert (answer.status_code, answer.json()["state"]) == (202, "RECEIVED")


def test_a_task_without_a_callback_has_nothing_to_deliver_again(shop, submit):
    problem(shop("POST", f"/v1/tasks/{submit()}/callback/redeliver"), 409, "STATE_CONFLICT")


def test_a_pending_callback_is_not_delivered_again(shop, submit):
    task_id = submit(callback={"type": "http", "url": "http://127.0.0.1:9/"})
    shop("POST", f"/v1/tasks/{task_id}/cancel")
    assert shop("GET", f"/v1/tasks/{task_id}").json()["callback"]["state"] == "PENDING"
    problem(shop("POST", f"/v1/tasks/{task_id}/callback/redeliver"), 409, "STATE_CONFLICT")


def test_tasks_are_listed_by_filter_newest_first(shop, submit):
    ids = [submit(correlationId=f"c-{n}", traceId=f"t-{n % 2}") for n in range(4)]

    def listed(**query):
        return [task["taskId"] for task in shop("GET", "/v1/tasks", QUERY_STRING=_query(query)).json()["items"]]

    assert listed() == listed(ability="echo", state="RECEIVED") == ids[::-1]
    assert listed(correlationId="c-2") == [ids[2]]
    assert listed(traceId="t-1") == [ids[3], ids[1]]
    assert listed(agentId="nobody") == listed(state="FAILED") == listed(ability="other") == []
    assert listed(createdAfter=rfc3339(now() + dt.timedelta(hours=1))) == []
    assert listed(createdBefore=rfc3339(now() + dt.timedelta(hours=1))) == ids[::-1]


def test_pages_stay_stable_while_tasks_arrive(shop, submit):
    ids = [submit() for _ in range(5)]
    seen, cursor = [], ""
    while cursor is not None:
        page = shop("GET", f"/v1/tasks?limit=2&cursor={cursor}").json()
        seen += [task["taskId"] for task in page["items"]]
        cursor = page["nextCursor"]
        submit()
    assert seen == ids[::-1]


def test_a_list_shows_ones_own_tasks_only(platform, submit):
    submit()
    assert platform.another()("GET", "/v1/tasks").json() == {"items": [], "nextCursor": None}
    assert len(platform.operator("GET", f"/v1/tasks?namespace={platform.namespace}").json()["items"]) == 1


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=501", "limit=-1", "limit=abc", "limit=²", "limit=" + "9" * 20, "cursor=garbage", "state=HAPPY",
        "createdAfter=yesterday", "createdBefore=0001-01-01T00:00:00Z", "correlationId=%00", "agentId=%00", "traceId=a%00",
        "format=xml", "stat=FAILED", "limit=1&limit=2", "state=FAILED&state=TIMEOUT", "format=csv&limit=0",
    ],
)  # fmt: skip
def test_a_bad_query_is_400(shop, query):
    document = problem(shop("GET", f"/v1/tasks?{query}"), 400, "BAD_REQUEST")
    assert query.partition("=")[0] in document["detail"].replace("format must", "format") or "csv" in query


def test_an_unknown_query_parameter_is_told_with_the_known_ones(shop):
    detail = problem(shop("GET", "/v1/tasks?stat=FAILED"), 400, "BAD_REQUEST")["detail"]
    assert "stat " in detail
    assert "state" in detail


def test_tasks_come_as_a_file_that_runs_nothing(shop, submit, monkeypatch):
    monkeypatch.setattr("routing.api.exports.PAGE", 2)
    ids = [submit(correlationId=name) for name in ("=1+1", "+x", "-x", "@x", "plain")]
    answer = shop("GET", "/v1/tasks?format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
    assert answer["Content-Type"].startswith("text/csv")
    assert [row["taskId"] for row in rows] == ids[::-1]
    assert [row["correlationId"] for row in rows] == ["plain", "'@x", "'-x", "'+x", "'=1+1"]
    assert rows[0]["state"] == "RECEIVED"


@pytest.mark.parametrize(
    ("query", "accept"), [("?format=csv", "text/csv"), ("", "text/csv"), ("?format=csv&limit=1", "*/*")]
)
def test_a_file_may_be_asked_for_by_format_or_by_media_type(shop, submit, query, accept):
    submit()
    answer = shop("GET", f"/v1/tasks{query}", HTTP_ACCEPT=accept)
    assert answer.getvalue().count(b"\r\n") == 2


def test_a_file_has_ones_own_tasks_that_fit_only(platform, submit):
    submit()
    other = platform.another()
    assert other("GET", "/v1/tasks?format=csv").getvalue().count(b"\r\n") == 1
    assert platform.shop("GET", "/v1/tasks?format=csv&state=FAILED").getvalue().count(b"\r\n") == 1


def test_xml_cannot_be_given(shop):
    problem(shop("GET", "/v1/tasks", HTTP_ACCEPT="application/xml"), 406, "NOT_ACCEPTABLE")


@pytest.mark.parametrize(
    ("given", "after"), [(None, 0), ("3", 3), ("-5", 0), ("x", 0), ("²", 0), ("9999999999", (1 << 31) - 1)]
)
def test_a_stream_resumes_after_the_last_event_seen(shop, submit, given, after):
    headers = {} if given is None else {"HTTP_LAST_EVENT_ID": given}
    answer = shop("GET", f"/v1/tasks/{submit()}/events", HTTP_ACCEPT="text/event-stream", **headers)
    assert isinstance(answer.hand_off, TaskEvents)
    assert answer.hand_off.after == after
    assert answer["Content-Type"] == "text/event-stream"
    assert (answer["Cache-Control"], answer["X-Accel-Buffering"]) == ("no-store", "no")


def test_an_agent_reports_its_own_attempt(platform, shop, submit):
    task_id = submit()
    key = attempt(task_id)
    receipt = platform.worker("POST", f"/v1/tasks/{task_id}/receipt", {"attemptKey": key})
    assert receipt.status_code == 200
    progress = {"attemptKey": key, "percent": 40, "message": "reading"}
    assert platform.worker("POST", f"/v1/tasks/{task_id}/progress", progress).status_code == 200
    assert shop("GET", f"/v1/tasks/{task_id}").json()["progress"]["percent"] == 40
    result = {"attemptKey": key, "status": "SUCCEEDED", "data": {"n": 1}}
    assert platform.worker("POST", f"/v1/tasks/{task_id}/result", result).status_code == 200
    task = shop("GET", f"/v1/tasks/{task_id}").json()
    assert (task["state"], task["result"]["data"]) == ("SUCCEEDED", {"n": 1})


@pytest.mark.parametrize("kind", ["receipt", "progress", "result"])
def test_a_report_on_an_attempt_of_another_agent_is_404(platform, submit, kind):
    from registry.services import credentials

    task_id = submit()
    body = {"attemptKey": attempt(task_id), **({"status": "SUCCEEDED"} if kind == "result" else {})}
    other = type(platform.worker)(credentials.for_agent(platform.namespace, "other", actor="t", now=now()).key)
    problem(other("POST", f"/v1/tasks/{task_id}/{kind}", body), 404, "NOT_FOUND")
    problem(platform.worker("POST", f"/v1/tasks/{uuid.uuid4()}/{kind}", body), 404, "NOT_FOUND")
    problem(platform.worker("POST", f"/v1/tasks/{task_id}/{kind}", {**body, "attemptKey": "x"}), 404, "NOT_FOUND")
    problem(platform.shop("POST", f"/v1/tasks/{task_id}/{kind}", body), 403, "FORBIDDEN")


def test_a_result_token_is_good_for_its_attempt_only(platform, submit):
    from registry import attempt_tokens

    mine, other = submit(), submit()
    key = attempt(mine)
    holder = type(platform.worker)(attempt_tokens.issue(uuid.UUID(mine), key))
    assert holder("POST", f"/v1/tasks/{mine}/receipt", {"attemptKey": key}).status_code == 200
    problem(holder("POST", f"/v1/tasks/{other}/receipt", {"attemptKey": attempt(other)}), 404, "NOT_FOUND")
    problem(holder("GET", f"/v1/tasks/{mine}"), 403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/attemptKey"),
        ({"attemptKey": 1, "status": "SUCCEEDED"}, "/attemptKey"),
        ({"attemptKey": "x", "status": "OK"}, "/status"),
        ({"attemptKey": "x", "status": "SUCCEEDED", "dta": 1}, "/dta"),
        ({"attemptKey": "x", "status": "FAILED", "error": {"code": "X", "mesage": "y"}}, "/error/mesage"),
    ],
)
def test_a_report_with_a_bad_field_names_it(platform, submit, body, pointer):
    document = problem(platform.worker("POST", f"/v1/tasks/{submit()}/result", body), 422, "INVALID")
    assert pointer in [error["pointer"] for error in document["errors"]]


@pytest.mark.parametrize("kind", ["receipt", "progress"])
def test_a_receipt_or_progress_with_an_unknown_field_names_it(platform, submit, kind):
    body = {"attemptKey": "x", "status": "SUCCEEDED"}
    document = problem(platform.worker("POST", f"/v1/tasks/{submit()}/{kind}", body), 422, "INVALID")
    assert [error["pointer"] for error in document["errors"]] == ["/status"]


def test_what_an_agent_says_in_free_form_is_taken(platform, shop, submit):
    task_id = submit()
    error = {"code": "E1", "message": "no", "retryable": False, "details": {"anything": [1]}}
    body = {"attemptKey": attempt(task_id), "status": "FAILED", "error": error, "usage": {"tokens": 1, "x": {}}}
    assert platform.worker("POST", f"/v1/tasks/{task_id}/result", body).status_code == 200
    assert shop("GET", f"/v1/tasks/{task_id}").json()["error"]["details"] == {"anything": [1], "agentCode": "E1"}


def test_a_result_of_an_ended_attempt_is_409(platform, shop, submit):
    task_id = submit()
    key = attempt(task_id)
    shop("POST", f"/v1/tasks/{task_id}/cancel")
    answer = platform.worker("POST", f"/v1/tasks/{task_id}/result", {"attemptKey": key, "status": "SUCCEEDED"})
    problem(answer, 409, "STATE_CONFLICT")


def test_callbacks_are_redelivered_by_filter_for_operators_only(platform, shop, submit):
    problem(shop("POST", "/v1/callbacks/redeliver", {}), 403, "FORBIDDEN")
    path = f"/v1/callbacks/redeliver?namespace={platform.namespace}"
    answer = platform.operator("POST", path, {"client": "shop", "state": "DEAD", "from": "2026-01-01T00:00:00Z"})
    assert (answer.status_code, answer.json()) == (202, {"count": 0})
    problem(platform.operator("POST", path, {"from": "monday"}), 422, "INVALID")
    problem(platform.operator("POST", path, {"state": "PENDING"}), 422, "INVALID")


def _query(values: dict[str, str]) -> str:
    from urllib.parse import urlencode

    return urlencode(values)

"""Every kind of answer that agents were seen to give, and what it means."""

import datetime as dt

import pytest
from multidict import CIMultiDict

from common.json import parse
from common.schema import Validator
from routing.channels.answers import classify
from routing.evidence import verdict_of
from routing.snapshot import CapabilityView

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
PLAIN = CapabilityView("c")


def outcome(body=b"", status=200, headers=(), capability=PLAIN):
    return classify(status, CIMultiDict(headers), body, capability, NOW)


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b'{"status": "SUCCEEDED", "data": {"x": 1.10}}', b'{"x": 1.10}'),
        (b'{"status": "SUCCEEDED"}', b"null"),
        (b'{"category": "bug"}', b'{"category": "bug"}'),
        (b'{"status": "ok", "n": 1}', b'{"status": "ok", "n": 1}'),
        (b"null", b"null"),
        (b"[]", b"[]"),
        (b'"text"', b'"text"'),
        (b"9007199254740993", b"9007199254740993"),
        (b'\xef\xbb\xbf{"x": 1}', b'{"x":1}'),
        (b'{"out": "\\u0000"}', '{"out":"\ufffd"}'.encode()),
        (b'{"out": "\\ud83d"}', '{"out":"\ufffd"}'.encode()),
        (b'{"out": "\\ud83d\\ude00"}', b'{"out": "\\ud83d\\ude00"}'),
        (b'{"x": 1e-400}', b'{"x": 1e-400}'),
        (b'{"jsonrpc": "2.0", "result": 1, "id": 7}', b'{"jsonrpc": "2.0", "result": 1, "id": 7}'),
    ],
)
def test_usable_json_is_the_data_of_a_success(body, data):
    found = outcome(body)
    assert (found.kind, found.data, found.certainty) == ("SUCCEEDED", data, "RAN")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"<html><body>Please log in</body></html>",
        b'{"status": "SUCCEEDED", "data": {"x"',
        b'{"x": 1e400}',
        b'{"x": -1e400}',
        b'{"x": NaN}',
        b'{"x": 1, "x": 2}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"[" * 900 + b"]" * 900,
        b'{"error": {"code": 504}}',
        b'{"status": "ok", "error": {"code": 504}}',
        b'{"status": "SUCCEEDED", "data": 1, "error": {"message": "no"}}',
    ],
)
def test_what_is_no_usable_result_is_a_bad_response(body):
    found = outcome(body)
    assert (found.kind, found.code, found.retryable) == ("FAILED", "BAD_RESPONSE", None)


@pytest.mark.parametrize("status", [204, 205, 206, 301, 302, 303, 307, 308])
def test_statuses_without_a_result_are_bad_responses(status):
    assert outcome(b'{"status": "SUCCEEDED"}', status).code == "BAD_RESPONSE"


@pytest.mark.parametrize(
    ("status", "code", "certainty"),
    [
        (400, "REJECTED", "RAN"),
        (401, "REJECTED", "RAN"),
        (404, "REJECTED", "RAN"),
        (422, "REJECTED", "RAN"),
        (408, "TIMEOUT", "MAYBE_RAN"),
        (504, "TIMEOUT", "MAYBE_RAN"),
        (429, "SERVICE_UNAVAILABLE", "RAN"),
        (503, "SERVICE_UNAVAILABLE", "RAN"),
        (500, "INTERNAL_ERROR", "RAN"),
        (502, "INTERNAL_ERROR", "RAN"),
    ],
)
def test_an_error_status_has_its_code_whatever_the_body(status, code, certainty):
    found = outcome(b'{"jsonrpc": "2.0", "result": {"fine": true}, "id": 1}', status)
    assert (found.kind, found.code, found.certainty) == ("FAILED", code, certainty)


@pytest.mark.parametrize(
    ("status", "headers", "verdict"),
    [(429, {}, None), (429, {"Retry-After": "abc"}, None), (429, {"Retry-After": "2"}, None), (503, {}, False),
     (503, {"Retry-After": "2"}, None), (400, {}, None), (401, {}, None), (403, {}, None), (404, {}, None),
     (422, {}, None), (408, {}, False), (500, {}, False), (504, {}, False)],
)  # fmt: skip
def test_only_what_is_the_agents_own_fault_counts_against_it(status, headers, verdict):
    assert verdict_of(outcome(b"{}", status, headers)) is verdict


@pytest.mark.parametrize(
    ("code", "kind"),
    [(-32000, "INTERNAL_ERROR"), (-32099, "INTERNAL_ERROR"), (-32603, "INTERNAL_ERROR"), (-32601, "REJECTED"),
     (-32100, "REJECTED"), ("x", "REJECTED"), (None, "REJECTED")],
)  # fmt: skip
def test_a_json_rpc_error_is_a_failure(code, kind):
    import json

    body = json.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": "no"}, "id": 1}).encode()
    assert outcome(body).code == kind


def test_a_reported_failure_keeps_the_agents_own_code():
    found = outcome(b'{"status": "FAILED", "error": {"code": "E7", "message": "no quota", "details": {"a": 1}}}')
    assert (found.code, found.message, found.retryable) == ("AGENT_FAILED", "no quota", None)
    assert found.details == {"a": 1, "agentCode": "E7"}


@pytest.mark.parametrize(("said", "retryable"), [(b"true", True), (b"false", False), (b'"yes"', None), (b"null", None)])
def test_a_reported_failure_may_say_whether_it_is_retryable(said, retryable):
    body = b'{"status": "FAILED", "error": {"message": "no", "retryable": ' + said + b"}}"
    assert outcome(body).retryable is retryable


def test_a_failure_without_an_error_object_is_one_all_the_same():
    assert outcome(b'{"status": "FAILED", "error": "just words"}').message == "just words"


def test_nul_in_an_error_text_is_replaced():
    found = outcome(b'{"error": {"message": "a\\u0000b"}}', 500)
    assert found.message == "The agent answered 500: a\ufffdb"


@pytest.mark.parametrize(
    ("values", "wait_ms"),
    [(["3"], 3000), (["0"], 0), (["-5"], None), (["1.5"], None), (["9999999999"], 3_600_000), (["abc"], None),
     (["Fri, 02 Jan 2026 03:04:15 GMT"], 10_000), (["Wed, 21 Oct 2015 07:28:00 GMT"], 0), (["\u00b2"], None),
     (["1", "2"], None), ([], None)],
)  # fmt: skip
def test_retry_after_is_read_where_it_makes_sense(values, wait_ms):
    assert outcome(status=503, headers=[("Retry-After", value) for value in values]).retry_after_ms == wait_ms


@pytest.mark.parametrize(
    ("headers", "body", "url"),
    [
        ([], b"", None),
        ([("Location", "/jobs/1")], b"", "/jobs/1"),
        ([], b'{"statusUrl": "http://a/1"}', "http://a/1"),
        ([], b"not json", None),
    ],
)
def test_202_is_received_and_may_name_where_to_ask(headers, body, url):
    found = outcome(body, 202, headers)
    assert (found.kind, found.poll_url) == ("ACCEPTED", url)


def test_an_answer_that_does_not_fit_the_output_schema_is_bad():
    capability = CapabilityView("c", output=Validator({"type": "object", "required": ["category"]}))
    assert outcome(b'{"category": "bug"}', capability=capability).kind == "SUCCEEDED"
    assert outcome(b'{"other": 1}', capability=capability).code == "BAD_RESPONSE"


def test_fields_are_mapped():
    capability = CapabilityView("c", response_mapping={"category": "result.label", "confidence": "result.score"})
    found = outcome(b'{"result": {"label": "bug", "score": 0.90}}', capability=capability)
    assert parse(found.data) == {"category": "bug", "confidence": parse(b"0.90")}


def test_a_mapping_that_breaks_is_a_bad_response():
    capability = CapabilityView("c", response_mapping={"n": "abs(label)"})
    assert outcome(b'{"label": "x"}', capability=capability).code == "BAD_RESPONSE"


def test_usage_and_cost_are_kept():
    found = outcome(b'{"status": "SUCCEEDED", "data": 1, "usage": {"tokens": 5}, "cost": {"amount": 0.1}}')
    assert found.usage == {"tokens": 5}
    assert found.cost == {"amount": parse(b"0.1")}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/event-stream", b'data: {"text": "a"}\n\ndata: {"status": "SUCCEEDED", "data": "ab"}\n\n'),
        ("application/x-ndjson; charset=utf-8", b'{"text": "a"}\r\n{"status": "SUCCEEDED", "data": "ab"}\r\n'),
    ],
)
def test_the_last_chunk_with_a_status_is_the_result(kind, body):
    assert outcome(body, headers=[("Content-Type", kind)]).data == b'"ab"'


def test_a_stream_without_an_end_is_a_bad_response():
    assert outcome(b'{"text": "a"}\n', headers=[("Content-Type", "application/x-ndjson")]).code == "BAD_RESPONSE"

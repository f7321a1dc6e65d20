import json
import logging

import pytest
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import HttpResponse
from django.test import RequestFactory

from common.logging import current_trace_id
from reach_platform import error_answers
from reach_platform.middleware import SecurityHeaders, TraceId


def policy_of(path):
    request = RequestFactory().get(path)
    response = SecurityHeaders(lambda _: HttpResponse("ok"))(request)
    return response.headers["Content-Security-Policy"], getattr(request, "csp_nonce", None)


def test_a_console_page_may_run_no_inline_script_but_its_own():
    policy, nonce = policy_of("/console/")
    assert "unsafe" not in policy
    assert f"script-src 'self' 'nonce-{nonce}'" in policy


def test_a_nonce_is_never_used_twice():
    assert policy_of("/console/")[1] != policy_of("/console/")[1]


@pytest.mark.parametrize("path", ["/console/", "/admin/", "/docs", "/v1/tasks"])
def test_no_page_can_be_framed_or_load_from_elsewhere(path):
    policy, _ = policy_of(path)
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy


def test_the_admin_runs_no_script_that_stands_in_a_page():
    [scripts] = [part for part in policy_of("/admin/")[0].split("; ") if part.startswith("script-src")]
    assert "unsafe-inline" not in scripts


def test_only_the_admin_may_evaluate_expressions():
    assert "unsafe-eval" in policy_of("/admin/")[0]
    assert "unsafe-eval" not in policy_of("/docs")[0]


def test_a_policy_that_a_view_has_set_stays():
    def view(_):
        return HttpResponse("ok", headers={"Content-Security-Policy": "default-src 'self'"})

    answer = SecurityHeaders(view)(RequestFactory().get("/"))
    assert answer.headers["Content-Security-Policy"] == "default-src 'self'"


TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_requests_log_lines_and_problems_have_its_trace():
    request = RequestFactory().get("/v1/nothing", HTTP_TRACEPARENT=f"00-{TRACE}-b7ad6b7169203331-01")
    seen = []

    def view(request):
        seen.append(current_trace_id.get())
        return error_answers.not_found(request, Exception())

    response = TraceId(view)(request)
    assert (seen, json.loads(response.content)["traceId"], request.trace_id) == ([TRACE], TRACE, TRACE)
    assert current_trace_id.get() is None


def test_a_request_without_a_trace_gets_one_of_its_own():
    first, second = RequestFactory().get("/"), RequestFactory().get("/")
    for request in (first, second):
        TraceId(lambda _: HttpResponse("ok"))(request)
    assert first.trace_id != second.trace_id


def test_a_body_that_is_too_large_for_django_is_a_413():
    response = error_answers.bad_request(RequestFactory().get("/v1/tasks"), RequestDataTooBig())
    assert (response.status_code, json.loads(response.content)["code"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize(("path", "kept"), [("/readyz", False), ("/v1/tasks", True)])
def test_not_ready_is_an_answer_and_no_error_in_the_log(path, kept, settings):
    record = logging.makeLogRecord({"status_code": 503, "request": RequestFactory().get(path)})
    assert settings.LOGGING["filters"]["readiness"]["callback"](record) is kept


def test_an_unknown_address_is_a_problem_document():
    response = error_answers.not_found(RequestFactory().get("/v1/nothing"), Exception())
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "application/problem+json"
    assert json.loads(response.content)["code"] == "NOT_FOUND"


def test_an_unknown_page_is_a_page():
    response = error_answers.not_found(RequestFactory().get("/admin/nothing"), Exception())
    assert response.status_code == 404
    assert response.headers["Content-Type"].startswith("text/html")


def test_a_host_name_that_is_not_served_is_named_with_the_setting():
    response = error_answers.bad_request(RequestFactory().get("/", HTTP_HOST="evil.example"), DisallowedHost())
    assert response.status_code == 400
    assert "'evil.example' is not served here: see REACH_ALLOWED_HOSTS" in json.loads(response.content)["detail"]


def test_a_fault_of_ours_says_nothing_about_itself():
    response = error_answers.server_error(RequestFactory().get("/v1/tasks"))
    assert json.loads(response.content)["code"] == "INTERNAL"

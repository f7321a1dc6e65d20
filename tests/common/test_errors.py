"""Every error of a caller is a problem document, and no fault of ours tells more than that it was one."""

import json

import pytest
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404
from django.test import RequestFactory
from rest_framework import exceptions as drf
from rest_framework.views import APIView

from common import errors

TRACE = "0af7651916cd43dd8448eb211c80319c"
CONTRACT = {
    400: {"MALFORMED_JSON", "MALFORMED_YAML", "BAD_REQUEST"},
    401: {"UNAUTHENTICATED"},
    403: {"FORBIDDEN", "ABILITY_NOT_ALLOWED"},
    404: {"NOT_FOUND", "ABILITY_NOT_REGISTERED", "NO_MATCH"},
    405: {"METHOD_NOT_ALLOWED"},
    406: {"NOT_ACCEPTABLE"},
    409: {"STATE_CONFLICT"},
    413: {"BODY_TOO_LARGE"},
    415: {"UNSUPPORTED_MEDIA_TYPE"},
    422: {"INVALID", "PAYLOAD_INVALID", "IDEMPOTENCY_MISMATCH", "CALLBACK_URL_REFUSED", "MANIFEST_INVALID"},
    429: {"RATE_LIMITED", "BUDGET_EXHAUSTED"},
    500: {"INTERNAL"},
    503: {"OVERLOADED", "NOT_READY"},
}


def answer(raised, method="get", path="/v1/tasks"):
    """The response of a view that raises this."""

    class View(APIView):
        authentication_classes = permission_classes = ()

        def get_exception_handler(self):
            return errors.exception_handler

        def get(self, request):
            raise raised

    request = getattr(RequestFactory(), method)(path, HTTP_TRACEPARENT=f"00-{TRACE}-b7ad6b7169203331-01")
    response = View.as_view()(request)
    return response, json.loads(response.content)


def all_errors(kind=errors.ReachError):
    for child in kind.__subclasses__():
        if child.__module__ == "common.errors":  # the front has one of its own
            yield child
        yield from all_errors(child)


def test_the_tree_has_exactly_the_codes_of_the_contract():
    found = {}
    for kind in all_errors():
        found.setdefault(kind.status, set()).add(kind.code)
    assert found == CONTRACT


@pytest.mark.parametrize("kind", list(all_errors()))
def test_each_error_is_a_problem_document(kind):
    response, body = answer(kind())
    assert response["Content-Type"] == "application/problem+json"
    assert (response.status_code, body["status"], body["code"], body["traceId"]) == (
        kind.status,
        kind.status,
        kind.code,
        TRACE,
    )
    assert {"type", "title", "detail"} <= body.keys()
    assert ("Retry-After" in response) == (kind.status in (429, 503))


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (drf.ParseError(), "BAD_REQUEST"),
        (drf.NotAuthenticated(), "UNAUTHENTICATED"),
        (drf.AuthenticationFailed(), "UNAUTHENTICATED"),
        (drf.PermissionDenied(), "FORBIDDEN"),
        (drf.NotFound(), "NOT_FOUND"),
        (drf.MethodNotAllowed("PUT"), "METHOD_NOT_ALLOWED"),
        (drf.NotAcceptable(), "NOT_ACCEPTABLE"),
        (drf.UnsupportedMediaType("x/y"), "UNSUPPORTED_MEDIA_TYPE"),
        (drf.Throttled(3), "RATE_LIMITED"),
        (Http404(), "NOT_FOUND"),
        (PermissionDenied(), "FORBIDDEN"),
        (RequestDataTooBig(), "BODY_TOO_LARGE"),
        (SuspiciousOperation(), "BAD_REQUEST"),
        (OperationalError("server closed"), "NOT_READY"),
        (KeyError("secret"), "INTERNAL"),
    ],
)
def test_exceptions_of_the_frameworks_have_their_codes(raised, code):
    assert answer(raised)[1]["code"] == code


def test_a_fault_of_ours_tells_nothing_and_is_logged(caplog):
    response, body = answer(KeyError("secret-value"))
    assert response.status_code == 500
    assert b"secret-value" not in response.content
    told = [record for record in caplog.records if record.name == "common.errors"]
    assert [record.traceId for record in told] == [body["traceId"]] == [TRACE]


@pytest.mark.parametrize(("wait", "header"), [(None, "1"), (0, "1"), (0.2, "1"), (2.1, "3"), (-5, "1")])
def test_retry_after_is_a_whole_number_of_at_least_one(wait, header):
    assert answer(errors.RateLimited(retry_after=wait))[0]["Retry-After"] == header


def test_a_wrong_method_names_the_right_ones_and_a_401_the_scheme():
    assert "GET" in answer(None, method="put")[0]["Allow"]
    assert answer(errors.Unauthenticated())[0]["WWW-Authenticate"].startswith("Bearer")


def test_one_body_for_every_cause_of_401():
    """Case 14."""
    bodies = [
        answer(raised)[0].content
        for raised in (errors.Unauthenticated(), drf.NotAuthenticated(), drf.AuthenticationFailed("key x unknown"))
    ]
    assert len(set(bodies)) == 1


def test_echoed_text_cannot_break_the_document():
    """Cases 2 and 3."""
    error = errors.Invalid([{"pointer": "/a\0\ud800", "code": "TYPE", "message": "is \ud83d\0" + "x" * 9999}])
    body = answer(error)[1]
    assert body["errors"][0]["pointer"] == "/a\ufffd\ufffd"
    assert len(body["errors"][0]["message"]) <= 1000


def test_a_serializers_nested_errors_get_pointers():
    body = answer(drf.ValidationError({"a": {"b": ["wrong"]}, "non_field_errors": ["odd"], "c": [{}, {"d": ["bad"]}]}))[
        1
    ]
    assert [(item["pointer"], item["message"]) for item in body["errors"]] == [
        ("/a/b", "wrong"),
        ("", "odd"),
        ("/c/1/d", "bad"),
    ]

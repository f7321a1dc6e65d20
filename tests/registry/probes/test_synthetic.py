import json

import pytest

from common.clock import now
from common.signing import verify
from registry.probes.base import Sample
from tests.registry.probes.probing import against, answer, at

SAMPLE = Sample("a1", "default", "work", {"text": "hello"}, output={"type": "object", "required": ["category"]})


def with_answer(body, status=200, sample=SAMPLE):
    return against(lambda _: answer(body, status), "synthetic", sample=sample)


def test_an_answer_that_fits_is_healthy():
    assert with_answer('{"status": "SUCCEEDED", "data": {"category": "x"}}').ok is True
    assert with_answer('{"category": "x"}').ok is True


def test_received_is_healthy():
    assert with_answer("", 202).ok is True


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ('{"category": "x"}', 500, "the status is 500"),
        ("", 200, "the answer is no JSON"),
        ('{"status": "FAILED", "error": {"message": "no model"}}', 200, "the answer is a failure: no model"),
        ('{"error": "quota"}', 200, "the answer is a failure: quota"),
        ('{"status": "SUCCEEDED", "data": {}}', 200, "the answer does not fit the output schema"),
    ],
)
def test_an_answer_that_no_task_could_use_is_unhealthy(body, status, reason):
    result = with_answer(body, status)
    assert (result.ok, result.reason.startswith(reason)) == (False, True), result.reason


def test_the_request_is_a_task_s_and_says_that_it_is_none():
    seen = []
    against(lambda raw: seen.append(raw) or answer("{}"), "synthetic", sample=SAMPLE)
    head, _, body = seen[0].partition(b"\r\n\r\n")
    request = json.loads(body)
    assert (request["messageType"], request["payload"]) == ("task.request", {"text": "hello"})
    assert (request["metadata"], request["resultUrl"]) == ({"reachProbe": True}, None)
    assert b"Reach-Probe: 1" in head


def test_the_request_is_signed_as_a_task_s():
    seen = []
    signed = Sample("a1", "default", "work", {}, signing=("ak_1", "secret"))
    against(lambda raw: seen.append(raw) or answer("{}"), "synthetic", sample=signed)
    head, _, body = seen[0].partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    signer = verify("POST", "/health", "", body, headers, {"ak_1": ["secret"]}.get, now=now())
    assert signer.keyid == "ak_1"


def test_without_a_harmless_sample_nothing_is_sent():
    result = at("http://127.0.0.1:9/", "synthetic", sample=None)
    assert (result.ok, result.reason) == (None, "no capability with sideEffects: false has a requestSample")

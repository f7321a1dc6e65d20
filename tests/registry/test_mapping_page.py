"""An owner tries a mapping on samples: what would be sent, what would be made of the answer, what is wrong."""

import json

import pytest
from django.urls import reverse

from registry.models import Agent, Audit
from routing.mapping import tried
from routing.snapshot import CapabilityView
from tests.registry.test_admin import AGENT, login

ECHO = CapabilityView("echo")


def test_request_and_answer_go_through_the_mapping():
    adapter = {"request": {"q": "payload.text"}, "response": {"status": "'SUCCEEDED'", "data": "out"}}
    trial = tried(adapter, ECHO, {"text": "hi"}, b'{"out": {"n": 1}}')
    assert (trial.request, trial.outcome.data, trial.problems) == (b'{"q":"hi"}', b'{"n":1}', [])


@pytest.mark.parametrize(
    ("adapter", "answer", "pointer", "says"),
    [
        ({"response": {"data": "a..b"}}, b"{}", "/response/data", "'a..b' is no JMESPath expression"),
        ({"response": "length(out)"}, b'{"out": 5}', "/response", "'length(out)' does not fit"),
        ({"preset": "openai-chat"}, b'{"choices": []}', "/response", "choices[0].message.content"),
        ({"preset": "soap"}, b"{}", "/preset", "soap"),
        ({"request": "payload", "reply": 1}, b"{}", "/reply", "not expected"),
    ],
)
def test_what_is_wrong_names_the_expression(adapter, answer, pointer, says):
    [problem] = tried(adapter, ECHO, {"text": "hi"}, answer).problems
    assert problem["pointer"] == pointer
    assert says in problem["message"]


def test_an_expression_that_finds_nothing_is_told():
    trial = tried({"request": {"q": "payload.txt"}}, ECHO, {"text": "hi"}, b"{}")
    assert trial.silent == [{"pointer": "/request/q", "message": "payload.txt"}]


@pytest.fixture
def page(agent, manifest, namespace):
    manifest["spec"]["owner"] = "team-a"
    agent("PUT", AGENT, manifest)
    return reverse("agent-mapping", args=[Agent.objects.get(namespace=namespace).pk])


def test_the_page_shows_both_sides_and_changes_nothing(page):
    owner = login("ann", "owner", "team-a")
    assert "textarea" in owner.get(page).content.decode()
    before = Audit.objects.count()
    given = {"adapter": '{"preset": "text"}', "payload": '{"a": "<b>"}', "answer": "plain <i>words</i>"}
    text = owner.post(page, {"capability": "none", **given}).content.decode()
    assert "plain &lt;i&gt;words" in text
    assert "SUCCEEDED" in text
    assert Audit.objects.count() == before


@pytest.mark.parametrize("adapter", ["nonsense", "[1]", '{"preset": NaN}', "", json.dumps({"request": 1})])
def test_whatever_is_pasted_is_answered(page, adapter):
    answer = login("ann", "owner", "team-a").post(page, {"adapter": adapter, "payload": "{}", "answer": "\x00"})
    assert answer.status_code == 200


def test_another_team_finds_no_page(page):
    assert login("bob", "owner", "team-b").get(page).status_code == 404
    assert login("ann", "owner", "team-a").get("/admin/registry/agent/x/mapping/").status_code == 404

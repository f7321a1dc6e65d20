"""Forty real tickets through the sample classifier: however a caller asks, it learns the same."""

import json
import os
import subprocess
import sys

import pytest
import requests

from tests.trips.world import ROOT, Outside, until

TICKETS = [json.loads(line) for line in (ROOT / "examples/tickets.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def classifier(platform):
    """The sample agent, where the platform itself runs none."""
    demo = platform.demo
    env = {**os.environ, "REACH_URL": platform.url, "REACH_KEY": demo["agent"]["key"], "AGENT_INSTANCE_ID": "trip"}
    process = subprocess.Popen([sys.executable, "-m", "examples.ticket_classifier.agent"], env=env, cwd=ROOT)
    path = f"/v1/agents/{demo['agent']['agentId']}?namespace={demo['namespace']}"
    operator = {"Authorization": f"Bearer {demo['operatorKey']}"}
    until(lambda: requests.get(platform.url + path, headers=operator, timeout=5).status_code == 200, 20, "registration")
    yield
    process.terminate()
    process.wait(20)


@pytest.fixture
def receiver():
    one = Outside()
    yield one
    one.close()


def call(platform, method, path, **more):
    headers = {"Authorization": f"Bearer {platform.demo['client']['key']}", **more.pop("headers", {})}
    return requests.request(method, platform.url + path, headers=headers, timeout=40, **more)


def told_by_stream(platform, task_id):
    with call(platform, "GET", f"/v1/tasks/{task_id}/events", stream=True) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = list(answer.iter_lines(decode_unicode=True))
    return [json.loads(line[6:])["toState"] for line in lines if line.startswith("data: ")][-1]


def test_poll_wait_stream_and_callback_agree_on_forty_tickets(platform, classifier, receiver):
    ids = {}
    for number, ticket in enumerate(TICKETS):
        payload = {name: value for name, value in ticket.items() if name != "expectedCategory"}
        callback = {"type": "http", "url": f"{receiver.url}/callback"}
        body = {"target": {"ability": "ticket.classify"}, "payload": payload, "callback": callback}
        answer = call(platform, "POST", "/v1/reach", json=body, headers={"Prefer": "wait=20"} if number % 2 else {})
        assert answer.status_code == (200 if number % 2 else 202), answer.text
        ids[answer.json()["taskId"]] = ticket, answer.json() if number % 2 else None
    for task_id, (_, waited) in ids.items():
        assert told_by_stream(platform, task_id) == "SUCCEEDED"
        polled = call(platform, "GET", f"/v1/tasks/{task_id}").json()
        (called,) = until(lambda one=task_id: receiver.callbacks_of(one), 20, "the callback")
        assert polled["state"] == called["state"] == "SUCCEEDED"
        assert called["result"] == polled["result"]
        assert waited is None or waited["result"] == polled["result"]


def test_the_classifier_is_right_about_most_of_them(platform, classifier):
    right = 0
    for ticket in TICKETS:
        payload = {name: value for name, value in ticket.items() if name != "expectedCategory"}
        body = {"target": {"ability": "ticket.classify"}, "payload": payload}
        task = call(platform, "POST", "/v1/reach", json=body, headers={"Prefer": "wait=20"}).json()
        right += task["result"]["data"]["category"] == ticket["expectedCategory"]
    assert right >= 36

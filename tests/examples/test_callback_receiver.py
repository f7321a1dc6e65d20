import base64
import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from standardwebhooks import Webhook

from .conftest import Program

SECRET = "whsec_" + base64.b64encode(b"a secret of the callback tests").decode()
OTHER_SECRET = "whsec_" + base64.b64encode(b"quite another secret").decode()


@pytest.fixture
def receiver(start: Callable[..., Program], tmp_path: Path) -> Program:
    log = str(tmp_path / "received.jsonl")
    return start("examples.callback_receiver.receiver", CALLBACK_SECRET=SECRET, RECEIVER_LOG=log)


def deliver(url: str, message_id: str, task_id: str, secret: str = SECRET) -> int:
    body, now = json.dumps({"taskId": task_id, "state": "SUCCEEDED"}), datetime.datetime.now(datetime.UTC)
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, now, body),
    }
    return requests.post(url, data=body, headers=headers, timeout=5).status_code


def test_a_verified_callback_is_logged_and_listed(receiver: Program, tmp_path: Path) -> None:
    assert deliver(receiver.url, "msg-1", "t-1") == 204
    assert deliver(receiver.url, "msg-2", "t-2") == 204
    listed = requests.get(receiver.url.replace("/callback", "/received"), params={"taskId": "t-2"}, timeout=5)
    assert listed.json() == {"items": [{"taskId": "t-2", "state": "SUCCEEDED"}]}
    logged = [json.loads(line)["taskId"] for line in (tmp_path / "received.jsonl").read_text().splitlines()]
    assert logged == ["t-1", "t-2"]


def test_a_redelivery_is_acknowledged_but_not_logged_again(receiver: Program, tmp_path: Path) -> None:
    assert [deliver(receiver.url, "msg-1", "t-1") for _ in range(2)] == [204, 204]
    assert len((tmp_path / "received.jsonl").read_text().splitlines()) == 1


def test_a_callback_signed_with_another_secret_is_refused(receiver: Program, tmp_path: Path) -> None:
    assert deliver(receiver.url, "msg-1", "t-1", OTHER_SECRET) == 401
    assert not (tmp_path / "received.jsonl").exists()


def test_a_callback_without_a_signature_is_refused(receiver: Program) -> None:
    assert requests.post(receiver.url, json={"taskId": "t-1"}, timeout=5).status_code == 401

import datetime
import json
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import requests
from http_message_signatures import HTTPMessageSigner
from http_message_signatures.algorithms import HMAC_SHA256

from examples.agent_server import Processed
from examples.signatures import SIGNED_COMPONENTS, SharedSecret

from .conftest import PlatformDouble, Program

CLASSIFIER, SUMMARISER = "examples.ticket_classifier.agent", "examples.summariser.agent"
TICKET = {"ticketTitle": "Cannot log in", "ticketContent": "My password is refused", "channel": "app"}
PAYLOADS = {CLASSIFIER: TICKET, SUMMARISER: {"text": "The lift is broken. The lift stops. Tea is hot."}}
Start = Callable[..., Program]


def signed_post(url: str, body: bytes, secret: str) -> requests.Response:
    message = SimpleNamespace(method="POST", url=url, headers={})
    HTTPMessageSigner(signature_algorithm=HMAC_SHA256, key_resolver=SharedSecret(secret)).sign(
        message,
        key_id="platform",
        nonce="n-1",
        created=datetime.datetime.now(datetime.UTC),
        covered_component_ids=SIGNED_COMPONENTS,
        body=body,
    )
    return requests.post(url, data=body, headers=message.headers, timeout=5)


def test_the_classifier_answers_category_confidence_and_usage(start: Start) -> None:
    agent = start(CLASSIFIER)
    answer = requests.post(f"{agent.url}/reach/invoke", json={"payload": TICKET}, timeout=5).json()
    assert answer["status"] == "SUCCEEDED"
    assert answer["data"]["category"] == "login"
    assert 0 < answer["data"]["confidence"] <= 1
    assert answer["usage"]["tokens"] > 0


def test_the_summariser_answers_summary_sentences_and_ratio(start: Start) -> None:
    body = {"payload": PAYLOADS[SUMMARISER] | {"maxSentences": 2}}
    answer = requests.post(f"{start(SUMMARISER).url}/reach/invoke", json=body, timeout=5).json()
    assert answer["data"]["sentences"] == ["The lift is broken.", "The lift stops."]
    assert answer["data"]["ratio"] < 1


@pytest.mark.parametrize("module", [CLASSIFIER, SUMMARISER])
def test_health_is_ok_when_the_model_works(start: Start, module: str) -> None:
    answer = requests.get(f"{start(module).url}/reach/health", timeout=5)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b"{}", b'{"payload":[]}', b'{"payload":{"ticketTitle":1}}'])
def test_what_is_no_ticket_is_refused_with_422(start: Start, body: bytes) -> None:
    answer = requests.post(f"{start(CLASSIFIER).url}/reach/invoke", data=body, timeout=5)
    assert answer.status_code == 422
    assert answer.json()["error"]["retryable"] is False


def test_the_lookup_remembers_processed_keys(start: Start) -> None:
    url = start(CLASSIFIER).url
    sent = {"payload": TICKET, "idempotencyKey": "order/1 x"}
    data = requests.post(f"{url}/reach/invoke", json=sent, timeout=5).json()["data"]
    found = requests.get(f"{url}/reach/lookup", params={"idempotencyKey": "order/1 x"}, timeout=5).json()
    unknown = requests.get(f"{url}/reach/lookup", params={"idempotencyKey": "other"}, timeout=5).json()
    assert found == {"processed": True, "status": "SUCCEEDED", "data": data}
    assert unknown == {"processed": False}


def test_the_lookup_forgets_the_oldest_key_first() -> None:
    processed = Processed(size=2)
    for key in ("a", "b", "a", "c"):
        processed.remember(key, {"key": key})
    assert [processed.lookup(key)["processed"] for key in "abc"] == [True, False, True]


def test_only_a_request_signed_with_the_shared_secret_is_served(start: Start) -> None:
    url = f"{start(CLASSIFIER, AGENT_SECRET_KEY='right').url}/reach/invoke"
    body = requests.Request("POST", url, json={"payload": TICKET}).prepare().body
    assert isinstance(body, bytes)
    assert signed_post(url, body, "right").status_code == 200
    assert signed_post(url, body, "wrong").status_code == 401
    assert requests.post(url, data=body, timeout=5).status_code == 401


def test_an_agent_registers_beats_and_leaves_on_sigterm(start: Start, platform_double: PlatformDouble) -> None:
    agent = start(SUMMARISER, REACH_URL=platform_double.url, REACH_KEY="k", AGENT_INSTANCE_ID="one")
    platform_double.wait_for("POST", "/one/heartbeat", times=2)
    assert agent.stop() == 0
    assert platform_double.requests[:2] == [
        ("PUT", "/v1/agents/summariser"),
        ("PUT", "/v1/agents/summariser/instances/one"),
    ]
    assert platform_double.requests[-1] == ("DELETE", "/v1/agents/summariser/instances/one")


def test_a_platform_that_is_not_there_yet_is_waited_for_and_told_of_once(start: Start) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    agent = start(SUMMARISER, REACH_URL=f"http://127.0.0.1:{port}", REACH_KEY="k", AGENT_INSTANCE_ID="one")
    assert json.loads(agent.line())["event"] == "platform.away"
    time.sleep(2.5)  # two more tries
    double = PlatformDouble(port)
    double.wait_for("PUT", "/instances/one")
    assert json.loads(agent.line())["event"] == "registered"
    double.close()


def test_a_lost_registration_is_made_again(start: Start, platform_double: PlatformDouble) -> None:
    platform_double.registered = False
    start(SUMMARISER, REACH_URL=platform_double.url, REACH_KEY="k", AGENT_INSTANCE_ID="one")
    platform_double.wait_for("PUT", "/instances/one", times=2)

import json

import pytest

from tests.registry.probes.probing import against, answer


def replying(**fields):
    """A server that answers each call with these fields; `id` is the call's own unless given."""

    def handle(raw: bytes) -> bytes:
        call = json.loads(raw.partition(b"\r\n\r\n")[2])
        return answer(json.dumps({"jsonrpc": "2.0", "id": call["id"], **fields}))

    return handle


def test_a_result_with_the_call_s_id_is_healthy():
    assert against(replying(result={}), "jsonrpc").ok is True


def test_the_declared_method_is_called():
    seen = []
    against(lambda raw: seen.append(raw) or replying(result=1)(raw), "jsonrpc", rpc="health.check")
    call = json.loads(seen[0].partition(b"\r\n\r\n")[2])
    assert (call["jsonrpc"], call["method"]) == ("2.0", "health.check")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"result": {}, "id": "another"}, "the reply has another id than the call"),
        ({"result": {}, "id": None}, "the reply has another id than the call"),
        ({"result": {}, "jsonrpc": "1.0"}, 'the reply does not say jsonrpc "2.0"'),
        ({"error": {"code": -32601, "message": "no method"}}, "the reply is JSON-RPC error -32601: no method"),
        ({}, "the reply has neither result nor error"),
    ],
)
def test_a_reply_that_is_no_answer_is_unhealthy(fields, reason):
    result = against(replying(**fields), "jsonrpc")
    assert (result.ok, result.reason) == (False, reason)


@pytest.mark.parametrize("body", ["ok", "[]", "", "null"])
def test_what_is_no_object_is_unhealthy(body):
    assert against(lambda _: answer(body), "jsonrpc").reason == "the reply is no JSON object"


def test_the_result_can_be_expected():
    wrong = against(replying(result={"state": "down"}), "jsonrpc", expect={"json": {"state": "up"}})
    assert wrong.reason == "/result/state is 'down', expected 'up'"
    assert against(replying(result={"state": "up"}), "jsonrpc", expect={"json": {"state": "up"}}).ok is True

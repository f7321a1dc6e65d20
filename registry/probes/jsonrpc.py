"""Healthy when a JSON-RPC call gets its own result: same id, no error."""

import secrets

from common.encoding import dumps
from common.outbound import Outbound
from registry.probes.base import Target
from registry.probes.body import KEPT_BYTES, is_json, lacks, parsed, wrong_status
from registry.probes.http import CONNECT_TIMEOUT_S


async def probe(target: Target, out: Outbound) -> str:
    """One POST of a call without parameters; `expect.json` is about the result."""
    call_id = f"reach-{secrets.token_hex(8)}"
    answer = await out.request(
        "POST",
        target.url,
        headers={"Content-Type": "application/json", "Accept": "application/json", **target.headers},
        body=dumps({"jsonrpc": "2.0", "id": call_id, "method": target.rpc}),
        connect_timeout_s=min(CONNECT_TIMEOUT_S, target.timeout_s),
        total_timeout_s=target.timeout_s,
        max_bytes=KEPT_BYTES,
    )
    if wrong := wrong_status(answer.status, target.expect.get("status")):
        return wrong
    reply = parsed(answer)
    if not is_json(reply) or not isinstance(reply, dict):
        return "the reply is no JSON object"
    return _wrong_reply(reply, call_id) or (
        lacks(reply["result"], target.expect["json"], "/result") if "json" in target.expect else ""
    )


def _wrong_reply(reply: dict[str, object], call_id: str) -> str:
    if reply.get("jsonrpc") != "2.0":
        return 'the reply does not say jsonrpc "2.0"'
    error = reply.get("error")
    if error is not None:
        said = error if isinstance(error, dict) else {}
        return f"the reply is JSON-RPC error {said.get('code')}: {said.get('message')}"
    if reply.get("id") != call_id:
        return "the reply has another id than the call"
    return "" if "result" in reply else "the reply has neither result nor error"

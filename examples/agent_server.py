"""The sample agents' HTTP endpoints, with a memory of processed requests for lookups."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from aiohttp import web

from examples.signatures import SignatureCheck

Invoke = Callable[[dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]]  # payload → data, usage


class PayloadError(ValueError):
    """The payload cannot be worked on; the message says which field and why."""


class Processed:
    """The results of the last `size` idempotency keys; the oldest are forgotten first."""

    def __init__(self, size: int = 10_000):
        self._size = size
        self._results: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def remember(self, key: str, data: dict[str, Any]) -> None:
        self._results[key] = data
        self._results.move_to_end(key)
        if len(self._results) > self._size:
            self._results.popitem(last=False)

    def lookup(self, key: str) -> dict[str, Any]:
        if key not in self._results:
            return {"processed": False}
        return {"processed": True, "status": "SUCCEEDED", "data": self._results[key]}


class AgentServer:
    """The agent's endpoints: POST /reach/invoke, GET /reach/health, GET /reach/lookup."""

    def __init__(self, invoke: Invoke, is_healthy: Callable[[], bool], secret: str | None):
        self._invoke, self.is_healthy = invoke, is_healthy
        self._signature, self._processed, self.inflight = SignatureCheck(secret), Processed(), 0
        self.app = web.Application(client_max_size=4 * 2**20)
        self.app.router.add_post("/reach/invoke", self._handle_invoke)
        self.app.router.add_get("/reach/health", self._handle_health)
        self.app.router.add_get("/reach/lookup", self._handle_lookup)

    async def _handle_invoke(self, request: web.Request) -> web.Response:
        await self._signature.require(request)
        try:
            body = task_request(await request.read())
            data, usage = await self._work(body["payload"])
        except PayloadError as error:
            return refused(str(error))
        if key := body.get("idempotencyKey"):
            self._processed.remember(str(key), data)
        return web.json_response({"status": "SUCCEEDED", "data": data, "usage": usage})

    async def _work(self, payload: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        self.inflight += 1
        try:
            # A thread keeps heartbeats and health answers going while a long text is worked on.
            return await asyncio.to_thread(self._invoke, payload)
        finally:
            self.inflight -= 1

    async def _handle_health(self, request: web.Request) -> web.Response:
        healthy = self.is_healthy()
        return web.json_response({"status": "ok" if healthy else "failing"}, status=200 if healthy else 503)

    async def _handle_lookup(self, request: web.Request) -> web.Response:
        await self._signature.require(request)
        return web.json_response(self._processed.lookup(request.query.get("idempotencyKey", "")))


def task_request(raw: bytes) -> dict[str, Any]:
    """Return the parsed task request; raises PayloadError unless it is an object with an object `payload`."""
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise PayloadError(f"not JSON: {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("payload"), dict):
        raise PayloadError("/payload must be an object")
    return body


def refused(message: str) -> web.Response:
    """Return the 422 answer to a request that no retry would help."""
    error = {"code": "PAYLOAD_REFUSED", "message": message, "retryable": False}
    return web.json_response({"status": "FAILED", "error": error}, status=422)

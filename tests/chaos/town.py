"""A namespace with an ability for each kind of agent, and a caller that does not give up."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import aiohttp

from reach_platform.embedded.place import Place
from tests.chaos.outside import COMING, PUSHED, STYLES, Outside
from tests.trips.world import Platform

WITH_LOOKUP = frozenset(STYLES) - {"plain"}
CHANNELS = frozenset({"websocket", *COMING})  # styles that are a channel of their own
FINAL = frozenset({"SUCCEEDED", "FAILED", "TIMEOUT", "CANCELLED"})
AGAIN_S = 0.25


class Town:
    """`agents_url` is where the platform reaches agents and receiver, `callers_url` where callers reach the platform."""

    def __init__(self, platform: Platform, outside: Outside, *, agents_url: str = "", callers_url: str = "") -> None:
        self.platform, self.outside = platform, outside
        self.agents_url = agents_url or outside.url
        self.callers_url = callers_url or platform.url
        self.namespace = f"chaos-{uuid.uuid4().hex[:12]}"
        platform.operator("POST", "/v1/namespaces", json={"name": self.namespace})
        client = {"name": "caller", "namespace": self.namespace, "abilities": ["*"]}
        client["scopes"] = ["tasks:write", "tasks:read"]
        self.key = platform.operator("POST", "/v1/clients", json=client)["key"]
        for style in STYLES:
            self._register(style)
        self._route()
        self._come()

    def _register(self, style: str) -> None:
        schema = {"type": "object"}
        capability = {
            "name": "work",
            "inputSchema": schema,
            "outputSchema": schema,
            "sideEffects": style in WITH_LOOKUP,
        }
        endpoints = {"health": f"{self.agents_url}/health"}
        if style in PUSHED:
            url = f"{self.agents_url}/invoke/{style}"
            endpoints["invoke"] = url.replace("http:", "ws:") if style == "websocket" else url
        if style in WITH_LOOKUP:
            endpoints["lookup"] = f"{self.agents_url}/lookup"
        spec = {"owner": "team", "limits": {"maxConcurrency": 400, "timeoutMs": 20_000}, "capabilities": [capability]}
        spec |= {"endpoints": endpoints, "channels": [style if style in CHANNELS else "http"]}
        manifest = {"apiVersion": "agent-reach/v1", "kind": "AgentManifest", "spec": spec}
        manifest["metadata"] = {"name": style, "version": "1.0.0"}
        self.platform.operator("PUT", f"/v1/agents/{style}?namespace={self.namespace}", json=manifest)

    def _route(self) -> None:
        retry = {"maxAttempts": 4, "backoffMs": [200, 500, 1000], "jitterMs": 100}
        routes = [
            {"ability": f"chaos.{style}", "candidates": [{"agent": style, "capability": "work"}], "retry": retry}
            for style in STYLES
        ]
        table = {"apiVersion": "agent-reach/v1", "kind": "RouteTable", "namespace": self.namespace, "routes": routes}
        self.platform.operator("PUT", f"/v1/routes?namespace={self.namespace}", json=table)

    def _come(self) -> None:
        """Have the agents that come for their tasks begin to."""
        keys = {}
        for style in COMING:
            given = self.platform.operator(
                "POST", f"/v1/agents/{style}/credentials", json={"namespace": self.namespace}
            )
            at = f"/v1/agents/{style}/instances/one?namespace={self.namespace}"
            self.platform.operator("PUT", at, json={"lookupUrl": f"{self.agents_url}/lookup"})
            keys[style] = given["key"]
        self.outside.begin(self.outside.fetch(self.callers_url, "pull", keys["pull"]))
        stream = f"reach:{self.namespace}:agent:stream:one"
        redis_url = Place.of(Path(self.platform.home.name)).redis_url
        self.outside.begin(self.outside.consume(self.callers_url, "stream", keys["stream"], stream, redis_url))

    def request(self, style: str, key: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "target": {"ability": f"chaos.{style}"},
            "payload": payload,
            "correlationId": key,
            "callback": {"type": "http", "url": f"{self.agents_url}/callback"},
            **more,
        }

    async def call(self, method: str, path: str, **more: Any) -> tuple[str, Any]:
        """(status or "lost", the document) of one request as the caller."""
        headers = {"Authorization": f"Bearer {self.key}"}
        url = f"{self.callers_url}{path}"
        try:
            async with self.outside.session.request(method, url, headers=headers, **more) as answer:
                return str(answer.status), await answer.json(content_type=None)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return "lost", None

    async def submit(self, asked: dict[str, Any], seconds: float = 120.0) -> tuple[str, list[str]]:
        """The task's id, and what the caller saw until it had a 202; the same request until then."""
        end, seen = asyncio.get_running_loop().time() + seconds, []
        while True:
            status, document = await self.call("POST", "/v1/reach", json=asked)
            seen.append(status)
            if status == "202":
                return document["taskId"], seen
            assert status == "lost" or int(status) >= 500 or status == "429", (status, document)
            assert asyncio.get_running_loop().time() < end, seen
            await asyncio.sleep(AGAIN_S)

    async def read(self, path: str, seconds: float = 60.0) -> Any:
        """The document there, asked for until it comes."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            status, document = await self.call("GET", path)
            if status == "200":
                return document
            assert asyncio.get_running_loop().time() < end, (path, status, document)
            await asyncio.sleep(AGAIN_S)

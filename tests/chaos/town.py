"""A namespace with an ability for each kind of agent, and a caller that does not give up."""

import asyncio
import uuid
from typing import Any

import aiohttp

from tests.chaos.outside import PUSHED, STYLES, Outside
from tests.trips.world import Platform

WITH_LOOKUP = frozenset(STYLES) - {"plain"}
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
        self._fetch()

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
            endpoints["invoke"] = f"{self.agents_url}/invoke/{style}"
        if style in WITH_LOOKUP:
            endpoints["lookup"] = f"{self.agents_url}/lookup"
        spec = {"owner": "team", "limits": {"maxConcurrency": 400, "timeoutMs": 20_000}, "capabilities": [capability]}
        spec |= {"endpoints": endpoints, "channels": ["http" if style in PUSHED else "pull"]}
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

    def _fetch(self) -> None:
        given = self.platform.operator("POST", "/v1/agents/pull/credentials", json={"namespace": self.namespace})
        instance = {"lookupUrl": f"{self.agents_url}/lookup"}
        at = f"/v1/agents/pull/instances/one?namespace={self.namespace}"
        self.platform.operator("PUT", at, json=instance)
        self.outside.begin(self.outside.fetch(self.callers_url, "pull", given["key"]))

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

"""What the sample agents share: stay registered with the platform, serve, stop gracefully.

Environment: REACH_URL and REACH_KEY (the platform and this agent's key; without REACH_URL it serves unregistered),
AGENT_HOST, AGENT_PORT (0 = any free port), AGENT_INSTANCE_ID, AGENT_SECRET_KEY (verify the platform's signature).
"""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from examples.agent_server import AgentServer, Invoke

RETRY_SECONDS = 1.0
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=10)


class Registration:
    """Keeps one instance registered with the platform until it leaves."""

    def __init__(self, platform: aiohttp.ClientSession, manifest: Path, agent_url: str, server: AgentServer):
        self._platform, self._manifest, self._server = platform, manifest.read_bytes(), server
        self._agent = f"/v1/agents/{yaml.safe_load(self._manifest)['metadata']['name']}"
        port = agent_url.rpartition(":")[2]
        instance_id = os.environ.get("AGENT_INSTANCE_ID") or f"{socket.gethostname()}-{port}"
        self._instance = f"{self._agent}/instances/{instance_id}"
        self._addresses = {f"{name}Url": f"{agent_url}/reach/{name}" for name in ("invoke", "health", "lookup")}

    async def keep(self) -> None:
        """Register and send heartbeats for ever; start again with the registration whenever something fails.

        A platform that is not there is waited for; the same trouble is told once, however long it lasts.
        """
        trouble = ""
        while True:
            try:
                pause_ms, registered, trouble = await self._register(), True, ""
                while registered:
                    await asyncio.sleep(pause_ms / 1000)
                    beat = await self._call("POST", f"{self._instance}/heartbeat", json=self._state())
                    pause_ms, registered = beat.get("nextHeartbeatMs", pause_ms), beat.get("registered", True)
            except (aiohttp.ClientError, TimeoutError) as error:
                away = isinstance(error, aiohttp.ClientConnectionError | TimeoutError)
                now = "waiting for the platform" if away else str(error)
                if now != trouble:
                    log("platform.away" if away else "registration.failed", error=str(error))
                trouble = now
                await asyncio.sleep(RETRY_SECONDS)

    async def leave(self) -> None:
        """Tell the platform that this instance takes no more work."""
        try:
            await self._call("DELETE", self._instance)
        except (aiohttp.ClientError, TimeoutError) as error:
            log("deregistration.failed", error=str(error))

    async def _register(self) -> int:
        await self._call("PUT", self._agent, data=self._manifest, headers={"Content-Type": "application/yaml"})
        answer = await self._call("PUT", self._instance, json=self._addresses)
        log("registered", path=self._instance)
        return int(answer["heartbeatIntervalMs"])

    def _state(self) -> dict[str, Any]:
        status = "ok" if self._server.is_healthy() else "degraded"
        return {"status": status, "components": {"model": status}, "inflight": self._server.inflight}

    async def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        async with self._platform.request(method, path, **request) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise aiohttp.ClientError(f"{method} {path}: {answer.status} {text[:500]}")
            return json.loads(text) if text else {}


async def serve(manifest: Path, invoke: Invoke, is_healthy: Callable[[], bool]) -> None:
    """Serve until SIGTERM or SIGINT; the platform is told before the last requests are finished."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = AgentServer(invoke, is_healthy, os.environ.get("AGENT_SECRET_KEY"))
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=10)
    await runner.setup()
    host = os.environ.get("AGENT_HOST", "127.0.0.1")
    await web.TCPSite(runner, host, int(os.environ.get("AGENT_PORT", "0"))).start()
    agent_url = f"http://{host}:{runner.addresses[0][1]}"
    log("listening", url=agent_url)
    async with AsyncExitStack() as stack:
        if os.environ.get("REACH_URL"):
            await stack.enter_async_context(registered(manifest, agent_url, server))
        await stop.wait()
    await runner.cleanup()


@asynccontextmanager
async def registered(manifest: Path, agent_url: str, server: AgentServer) -> AsyncIterator[None]:
    """Keep the agent registered within the block and deregister it afterwards."""
    headers = {"Authorization": f"Bearer {os.environ.get('REACH_KEY', '')}"}
    async with aiohttp.ClientSession(os.environ["REACH_URL"], headers=headers, timeout=REQUEST_TIMEOUT) as platform:
        registration = Registration(platform, manifest, agent_url, server)
        keeper = asyncio.create_task(registration.keep())
        yield
        keeper.cancel()
        await asyncio.wait([keeper])
        await registration.leave()


def log(event: str, **fields: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"event": event, **fields}, ensure_ascii=False), flush=True)

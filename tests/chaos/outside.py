"""Agents of every kind, with a lookup, and a receiver of callbacks: one event loop, and a ledger of what they saw.

An agent does its work, the side effect, as soon as it has read a task, and it does not look whether it did so before:
whatever runs twice is counted twice. What its lookup says is its ledger.
"""

import asyncio
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import aiohttp
import redis.asyncio
from aiohttp import web

PUSHED = ("answer", "report", "status", "chunks", "plain", "websocket")
COMING = ("pull", "stream")  # those that come for their tasks
STYLES = (*PUSHED, *COMING)
AGAIN_S = 0.5
PATIENCE_S = 180.0


class Ledger:
    """What agents and receiver saw, by the caller's correlationId, which is the idempotency key too."""

    def __init__(self) -> None:
        self.calls: defaultdict[str, list[str]] = defaultdict(list)  # attempt keys that reached an agent
        self.effects: Counter[str] = Counter()
        self.results: dict[str, Any] = {}
        self.lookups: Counter[str] = Counter()
        self.reports: defaultdict[str, list[str]] = defaultdict(list)  # what the agent was answered
        self.told: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)


class Outside:
    """Use as a context manager; everything but `run` and `ledger` lives on its loop."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.on_call: Callable[[str, str], None] = lambda key, task_id: None  # before the agent answers
        self.loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: Counter[str] = Counter()
        self._held: dict[str, float] = {}  # until when the status address says "not yet"

    def __enter__(self) -> "Outside":
        threading.Thread(target=self.loop.run_forever, name="outside", daemon=True).start()
        self.port = self.run(self._start())
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = 60.0) -> Any:
        """Have the loop do it; from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the loop do it until it is done or everything ends."""
        self.loop.call_soon_threadsafe(self._spawn, work)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> int:
        app = web.Application()
        app.router.add_get("/health", _well)
        app.router.add_post("/invoke/{style}", self._invoke)
        app.router.add_get("/invoke/websocket", self._websocket)
        app.router.add_get("/status/{key}", self._status)
        app.router.add_get("/lookup", self._lookup)
        app.router.add_post("/callback", self._callback)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=40.0))
        return int(self._runner.addresses[0][1])

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.session.close()
        await self._runner.cleanup()

    def _work(self, asked: dict[str, Any]) -> str:
        """The side effect; returns the task's key."""
        key = str(asked["idempotencyKey"])
        self.ledger.calls[key].append(asked["attemptKey"])
        self.ledger.effects[key] += 1
        self.ledger.results.setdefault(key, {"key": key, "run": self.ledger.effects[key]})
        self.on_call(key, asked["taskId"])
        return key

    def _refuses(self, asked: dict[str, Any]) -> bool:
        """Whether it is too busy for this attempt: nothing is done then."""
        key = str(asked["idempotencyKey"])
        if self._refused[key] >= asked["payload"].get("refusals", 0):
            return False
        self._refused[key] += 1
        self.ledger.calls[key].append(asked["attemptKey"])
        self.on_call(key, asked["taskId"])
        return True

    async def _invoke(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if self._refuses(asked):
            return web.json_response({"error": "busy"}, status=503)
        key, work_s = self._work(asked), asked["payload"].get("workMs", 0) / 1000
        style = request.match_info["style"]
        if style == "report":
            if not asked["payload"].get("silent"):
                self._spawn(self._report(asked, work_s))
            return web.json_response({}, status=202)
        if style == "status":
            self._held[key] = self.loop.time() + work_s
            return web.json_response({}, status=202, headers={"Location": f"/status/{key}"})
        if style == "chunks":
            return await self._chunks(request, key, work_s)
        await asyncio.sleep(work_s)
        return web.json_response(self._done(key))

    def _done(self, key: str) -> dict[str, Any]:
        return {"status": "SUCCEEDED", "data": self.ledger.results[key]}

    async def _chunks(self, request: web.Request, key: str, work_s: float) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await answer.prepare(request)
        for chunk in ({"part": 1}, {"part": 2}, self._done(key)):
            with suppress(ConnectionError):  # the platform's process has died
                await answer.write(json.dumps(chunk).encode() + b"\n")
            await asyncio.sleep(work_s / 2)
        return answer

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        with suppress(ConnectionError, TypeError):  # it was closed before the task came, or before the result
            asked = await socket.receive_json()
            if self._refuses(asked):
                await socket.close()
                return socket
            key = self._work(asked)
            await asyncio.sleep(asked["payload"].get("workMs", 0) / 1000)
            await socket.send_json({"type": "result", "attemptKey": asked["attemptKey"], **self._done(key)})
        await socket.close()
        return socket

    async def _status(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        if self.loop.time() < self._held.get(key, 0.0):
            return web.json_response({"status": "RUNNING"})
        return web.json_response(self._done(key))

    async def _lookup(self, request: web.Request) -> web.Response:
        key = request.query["idempotencyKey"]
        self.ledger.lookups[key] += 1
        known = {"processed": True, **self._done(key)} if self.ledger.effects[key] else {"processed": False}
        return web.json_response(known)

    async def _callback(self, request: web.Request) -> web.Response:
        body = await request.json()
        message = {**body, "webhookId": request.headers["webhook-id"], "at": time.monotonic()}
        self.ledger.told[str(body["correlationId"])].append(message)
        return web.json_response({})

    async def _report(self, asked: dict[str, Any], work_s: float) -> None:
        """The result by API, again and again until the platform has said something about it."""
        await asyncio.sleep(work_s)
        key = str(asked["idempotencyKey"])
        body = {"attemptKey": asked["attemptKey"], **self._done(key)}
        headers = {"Authorization": f"Bearer {asked['resultToken']}"}
        end = self.loop.time() + PATIENCE_S
        while self.loop.time() < end:
            answered = await self._post(asked["resultUrl"], body, headers)
            self.ledger.reports[key].append(answered)
            if answered.isdigit() and int(answered) < 500:
                return
            await asyncio.sleep(AGAIN_S)

    async def _post(self, url: str, body: Any, headers: dict[str, str]) -> str:
        """The status of the answer, or why there was none."""
        try:
            async with self.session.post(url, json=body, headers=headers) as answer:
                await answer.read()
                return str(answer.status)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return "lost"

    async def fetch(self, platform: str, agent_id: str, key: str) -> None:
        """An agent that comes for its tasks, for ever."""
        url = f"{platform}/v1/agents/{agent_id}"
        headers = {"Authorization": f"Bearer {key}"}
        self._spawn(self._beat(f"{url}/instances/one/heartbeat", headers))
        while True:
            for asked in await self._leased(f"{url}/lease?wait=5", headers):
                self._work(asked)
                self._spawn(self._report(asked, asked["payload"].get("workMs", 0) / 1000))

    async def _leased(self, url: str, headers: dict[str, str]) -> list[dict[str, Any]]:
        body = {"instanceId": "one", "max": 10}
        try:
            async with self.session.post(url, json=body, headers=headers) as answer:
                if answer.status == 200:
                    return list((await answer.json())["tasks"])
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass
        await asyncio.sleep(AGAIN_S)
        return []

    async def consume(self, platform: str, agent_id: str, key: str, stream: str, redis_url: str) -> None:
        """An agent that reads a Redis stream, for ever, and says that it has a task before it runs it."""
        headers = {"Authorization": f"Bearer {key}"}
        self._spawn(self._beat(f"{platform}/v1/agents/{agent_id}/instances/one/heartbeat", headers))
        client = redis.asyncio.Redis.from_url(redis_url, socket_timeout=5)
        while True:
            for asked in await self._read(client, stream):
                self._spawn(self._run(asked))

    async def _read(self, client: Any, stream: str) -> list[dict[str, Any]]:
        try:
            found = await client.xreadgroup("reach", "one", {stream: ">"}, count=10, block=1000)
            return [json.loads(fields[b"task"]) for _, entries in found for _, fields in entries]
        except redis.ResponseError:  # it came back empty
            with suppress(redis.RedisError):
                await client.xgroup_create(stream, "reach", "0", mkstream=True)
        except (redis.RedisError, OSError):
            pass
        await asyncio.sleep(AGAIN_S)
        return []

    async def _run(self, asked: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {asked['resultToken']}"}
        url, body = asked["resultUrl"].removesuffix("result") + "receipt", {"attemptKey": asked["attemptKey"]}
        end = self.loop.time() + PATIENCE_S
        while self.loop.time() < end:
            answered = await self._post(url, body, headers)
            if answered == "200":
                self._work(asked)
                await self._report(asked, asked["payload"].get("workMs", 0) / 1000)
            if answered.isdigit() and int(answered) < 500:
                return
            await asyncio.sleep(AGAIN_S)

    async def _beat(self, url: str, headers: dict[str, str]) -> None:
        while True:
            await self._post(url, {"status": "ok"}, headers)
            await asyncio.sleep(5.0)


async def _well(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})

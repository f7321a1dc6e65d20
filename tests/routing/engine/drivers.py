"""One driver a channel: plays the agent behind it, for the conformance suite."""

import asyncio
import queue
import time
import uuid
from typing import Any

from aiohttp import WSMsgType, web
from django.db import transaction

from common import clock, redis
from common.json import dumps, parse
from registry.models import Agent
from registry.services.changes import touch
from routing.channels import entries
from routing.services import lease, report
from routing.services.lease import Fetcher
from tests.routing.engine.local import LocalServer, Received, wait_until
from tests.routing.services.world import task


class Driver:
    """What is alike: the agent lists one channel, and reports by API."""

    name = ""
    is_held = False  # a worker holds the attempt until its end
    elsewhere: tuple[str, ...] = ()  # behaviours that have a test of their own

    def __init__(self, town: Any):
        self.town = town
        with transaction.atomic():
            Agent.objects.filter(namespace=town.namespace).update(manifest={"spec": {"channels": [self.name]}})
            touch(town.namespace)

    def next(self) -> bytes:
        """The next task request that reaches the agent, which acknowledges it."""
        raise NotImplementedError

    def progress(self, body: dict[str, Any], **given: Any) -> None:
        report.progress(*_names(body), dumps(given), clock.now())

    def result(self, body: dict[str, Any], **given: Any) -> None:
        raw = dumps({"attemptKey": body["attemptKey"], **given})
        report.result(*_names(body), raw, clock.now())

    def late(self, body: dict[str, Any], **given: Any) -> None:
        """A result after the attempt's time."""
        Driver.result(self, body, **given)

    def chunk(self, body: dict[str, Any], data: Any) -> None:
        raise NotImplementedError

    def refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
        """From now on."""
        raise NotImplementedError

    def stop(self) -> None:
        pass


class Http(Driver):
    """The agent answers 202, and reports."""

    name, elsewhere = "http", ("chunks",)

    def __init__(self, town: Any):
        super().__init__(town)
        self._seen, self._status = 0, 202
        self._headers: dict[str, str] = {}

        async def answer(_: Any) -> web.Response:
            return web.json_response({}, status=self._status, headers=self._headers)

        town.agent.answer = answer

    def next(self) -> bytes:
        self._seen += 1
        body: bytes = self.town.agent.wait_for(self._seen)[self._seen - 1].body
        wait_until(lambda: task(uuid.UUID(parse(body)["taskId"]))["state"] != "DISPATCHED")
        return body

    def refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
        self._status, self._headers = status, headers or {}


class Pull(Driver):
    """The agent fetches the task, acknowledges and reports."""

    name = "pull"

    def next(self) -> bytes:
        found: list[lease.Leased] = []
        fetcher = Fetcher(self.town.namespace, "worker", "i1")

        def fetched() -> bool:
            found.extend(lease.take(fetcher, 1, clock.now()))
            return bool(found)

        wait_until(fetched)
        report.receipt(found[0].task_id, found[0].attempt_key, b"{}", clock.now())
        return found[0].body


class Stream(Driver):
    """The agent reads the task from its stream, acknowledges and reports."""

    name = "stream"

    def read(self) -> bytes:
        """The next entry, without a receipt."""
        key = entries.key((self.town.namespace, "worker", "i1"))
        client = redis.client(5.0)
        found: list[Any] = []

        def is_there() -> bool:
            if client.exists(key):
                found.extend(client.xreadgroup("reach", "reader", {key: ">"}, count=1))
            return bool(found)

        wait_until(is_there)
        body: bytes = found[0][1][0][1][b"task"]
        return body

    def next(self) -> bytes:
        body = self.read()
        report.receipt(*_names(parse(body)), b"{}", clock.now())
        return body


class SocketServer(LocalServer):
    """Takes websockets: the first message is the task, what comes after it is kept in `said`."""

    def __init__(self) -> None:
        self.status = 101
        self.headers: dict[str, str] = {}
        self.sockets: dict[str, web.WebSocketResponse] = {}
        self.said: list[Any] = []
        super().__init__()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.status != 101:
            return web.Response(status=self.status, headers=self.headers)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        body = (await socket.receive_str()).encode()
        self.sockets[parse(body)["attemptKey"]] = socket
        self.received.append(Received(request.path, request.headers, body, time.monotonic()))
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                self.said.append(parse(message.data.encode()))
        return socket

    def say(self, attempt_key: str, **frame: Any) -> None:
        text = dumps({"attemptKey": attempt_key, **frame}).decode()
        self.do(self.sockets[attempt_key].send_str(text))

    def do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


class Websocket(Driver):
    """The agent says everything over the connection."""

    name, is_held = "websocket", True

    def __init__(self, town: Any):
        self.server = SocketServer()
        super().__init__(town)
        town.point_to(self.server.url.replace("http", "ws"))
        self._seen = 0

    def next(self) -> bytes:
        self._seen += 1
        body: bytes = self.server.wait_for(self._seen)[self._seen - 1].body
        self.server.say(parse(body)["attemptKey"], type="receipt")
        wait_until(lambda: task(uuid.UUID(parse(body)["taskId"]))["state"] != "DISPATCHED")
        return body

    def progress(self, body: dict[str, Any], **given: Any) -> None:
        self.server.say(body["attemptKey"], type="progress", **given)

    def result(self, body: dict[str, Any], **given: Any) -> None:
        self.server.say(body["attemptKey"], type="result", **given)

    def chunk(self, body: dict[str, Any], data: Any) -> None:
        self.server.say(body["attemptKey"], type="chunk", data=data)

    def refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.server.status, self.server.headers = status, headers or {}

    def stop(self) -> None:
        self.server.stop()


calls: "queue.Queue[tuple[dict[str, Any], Any, queue.Queue[Any]]]" = queue.Queue()


def work(request: dict[str, Any], call: Any) -> Any:
    """The operator's function: returns what the test says."""
    said: queue.Queue[Any] = queue.Queue()
    calls.put((request, call, said))
    return said.get(timeout=60)


class Function(Driver):
    """The agent is a function of the platform's own."""

    name, is_held = "function", True

    def __init__(self, town: Any):
        super().__init__(town)
        self._open: dict[str, tuple[Any, queue.Queue[Any]]] = {}

    def next(self) -> bytes:
        request, call, said = calls.get(timeout=60)
        self._open[request["attemptKey"]] = (call, said)
        wait_until(lambda: task(uuid.UUID(request["taskId"]))["state"] != "DISPATCHED")
        return dumps(request)

    def progress(self, body: dict[str, Any], **given: Any) -> None:
        self._open[body["attemptKey"]][0].progress(**given)

    def result(self, body: dict[str, Any], **given: Any) -> None:
        self._open[body["attemptKey"]][1].put(given)

    def late(self, body: dict[str, Any], **given: Any) -> None:
        self.result(body, **given)

    def chunk(self, body: dict[str, Any], data: Any) -> None:
        self._open[body["attemptKey"]][0].chunk(data)

    def is_over(self, body: dict[str, Any]) -> bool:
        return bool(self._open[body["attemptKey"]][0].is_over)

    def stop(self) -> None:
        for _, said in self._open.values():
            said.put({})


def _names(body: dict[str, Any]) -> tuple[uuid.UUID, uuid.UUID]:
    return uuid.UUID(body["taskId"]), uuid.UUID(body["attemptKey"])


DRIVERS: tuple[type[Driver], ...] = (Http, Pull, Stream, Websocket, Function)

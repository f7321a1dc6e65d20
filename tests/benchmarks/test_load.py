"""The generator and both peers against each other on real sockets: a server that hands tasks on stands for a system."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from benchmarks.load import Generator, Post, Target, closed_loop, open_loop
from benchmarks.measure import count_lost, drained
from benchmarks.peers import Agent, Peer, Receiver

DELAY = 0.03


class StraightThrough(ThreadingHTTPServer):
    """Calls the agent and the receiver within the POST, unless told to keep the callback to itself."""

    daemon_threads = True

    def __init__(self, agent_url: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.agent_url, self.silent = agent_url, False
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StraightThrough

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.under_way += 1
            self.server.most_under_way = max(self.server.most_under_way, self.server.under_way)
        answer = requests.post(self.server.agent_url, json={"payload": asked["payload"]}, timeout=5).json()
        with self.server.lock:
            self.server.under_way -= 1
        if not self.server.silent:
            callback = {"correlationId": asked["correlationId"], "state": answer["status"]}
            requests.post(asked["callback"]["url"], json=callback, timeout=5)
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep the test output quiet."""


@pytest.fixture
def agent() -> Iterator[Peer]:
    peer = Peer.start(Agent, DELAY)
    yield peer
    peer.stop()


@pytest.fixture
def receiver() -> Iterator[Peer]:
    peer = Peer.start(Receiver)
    yield peer
    peer.stop()


@pytest.fixture
def system(agent: Peer) -> Iterator[StraightThrough]:
    server = StraightThrough(agent.url)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def target(system: StraightThrough, receiver: Peer) -> Target:
    return Target(f"http://127.0.0.1:{system.server_port}/v1/reach", "key", "bench.echo", receiver.url)


def test_every_post_is_seen_by_the_agent_and_called_back(target: Target, agent: Peer, receiver: Peer) -> None:
    posts = Generator(open_loop, target, 20.0, 0.5).result()
    callbacks = drained(posts, receiver)
    markers = {post.marker for post in posts}
    assert len(markers) == 10
    assert {record[0] for record in agent.take_records()} == {callback[0] for callback in callbacks} == markers


def test_the_agent_takes_its_time(target: Target, agent: Peer, receiver: Peer) -> None:
    drained(Generator(open_loop, target, 20.0, 0.2).result(), receiver)
    assert all(answered_at - received_at >= DELAY * 0.9 for _, received_at, answered_at in agent.take_records())


def test_a_closed_loop_keeps_to_its_bound(target: Target, system: StraightThrough, receiver: Peer) -> None:
    posts = Generator(closed_loop, target, 8, 0.5, 3, receiver.count).result()
    assert len(posts) > 5
    assert system.most_under_way <= 3


def test_a_task_that_is_never_called_back_counts_as_lost(
    target: Target, system: StraightThrough, receiver: Peer
) -> None:
    heard = Generator(open_loop, target, 10.0, 0.3).result()
    callbacks = drained(heard, receiver)
    system.silent = True
    unheard = Generator(open_loop, target, 10.0, 0.2).result()
    callbacks += drained(unheard, receiver, idle_seconds=0.2)
    assert count_lost(heard, callbacks) == 0
    assert count_lost(unheard, callbacks) == 2


def test_a_post_that_is_answered_with_an_error_stops_the_bench(receiver: Peer) -> None:
    with pytest.raises(RuntimeError, match="500"):
        drained([Post("m", 0.0, 0.1, 500)], receiver)


def test_a_task_called_back_as_failed_counts_as_lost() -> None:
    assert count_lost([Post("m", 0.0, 0.1, 202), Post("n", 0.0, 0.1, 503)], [("m", 0.2, "FAILED")]) == 1


def test_probes_are_answered_but_not_counted(agent: Peer) -> None:
    assert requests.get(agent.url, timeout=5).json() == {"status": "ok"}
    assert requests.post(agent.url, json={"payload": {}}, timeout=5).json()["status"] == "SUCCEEDED"
    assert (agent.take_records(), agent.count.value) == ([], 0)


def test_a_peer_ends_when_its_harness_is_gone():
    peer = Peer.start(Receiver)
    peer._pipe.close()
    peer._process.join(5)
    assert peer._process.exitcode == 0


def test_more_records_than_a_pipe_holds_arrive_whole(receiver: Peer):
    callers = Target(receiver.url, "key", "ability", receiver.url)

    async def post_many() -> None:
        caller = callers.caller()
        for _ in range(8000):
            await caller.post(b'{"taskId": "t", "correlationId": "%s", "state": "SUCCEEDED"}' % (b"x" * 40))
        caller.close()

    asyncio.run(post_many())
    assert len(receiver.take_records()) == 8000

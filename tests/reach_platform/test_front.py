"""The web front under the real server: bodies, headers, paths, streams and stops."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.reach_platform.front_app import BATCH_LIMIT, LIMIT

ROOT = Path(__file__).resolve().parents[2]


class Server:
    def __init__(self, **env: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        program = [sys.executable, "-m", "granian", "--interface", "asgi", "tests.reach_platform.front_app:application"]
        options = ["--port", str(self.port), "--backlog", "2048", "--backpressure", "2048", "--no-log"]
        plain = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        self.process = subprocess.Popen([*program, *options], cwd=ROOT, env={**plain, **env})
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError("the server did not start")

    def connect(self, timeout: float = 10) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def send(self, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to these very bytes."""
        with self.connect() as sock:
            sock.sendall(raw)
            response = http.client.HTTPResponse(sock)
            response.begin()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()

    def worker(self) -> psutil.Process:
        return max(psutil.Process(self.process.pid).children(), key=lambda child: child.num_threads())

    def stop(self) -> float:
        """Seconds that the stop took."""
        began = time.monotonic()
        if self.process.poll() is not None:
            return 0.0
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        return time.monotonic() - began


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


def chunked(path: str, *chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    return b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%s" % (path.encode(), body)


def with_headers(*lines: bytes, target: bytes = b"/") -> bytes:
    return b"\r\n".join([b"GET " + target + b" HTTP/1.1", b"Host: x", *lines, b"", b""])


@pytest.mark.parametrize(("path", "limit"), [("/a", LIMIT), ("/v1/reach/batch", BATCH_LIMIT)])
def test_a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not(server, path, limit):
    assert json.load(server.ask("POST", path, b"x" * limit))["size"] == limit
    refused = server.ask("POST", path, b"x" * (limit + 1))
    problem = json.load(refused)
    assert refused.status == problem["status"] == 413
    assert problem["code"] == "BODY_TOO_LARGE"
    assert str(limit) in problem["detail"]
    assert refused.headers["Content-Type"] == "application/problem+json"


def test_a_chunked_body_has_the_same_limit(server):
    status, _, body = server.send(chunked("/a", b"x" * 600, b"y" * 400))
    assert (status, json.loads(body)["size"]) == (200, 1000)
    status, _, body = server.send(chunked("/a", b"x" * 600, b"y" * 401))
    assert (status, json.loads(body)["code"]) == (413, "BODY_TOO_LARGE")


def test_a_body_far_over_the_limit_gets_its_413_and_takes_no_memory(server):
    before = server.worker().memory_info().rss
    assert server.ask("POST", "/a", b"x" * 30_000_000).status == 413
    assert server.send(chunked("/a", *[b"x" * 1_000_000] * 30))[0] == 413
    assert server.worker().memory_info().rss - before < 10_000_000


def test_a_slow_upload_is_cut_and_delays_nobody(server):
    with server.connect() as slow:
        slow.sendall(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab")
        began = time.monotonic()
        assert server.ask("GET", "/quick").status == 200
        assert time.monotonic() - began < 0.5
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        assert (answer.status, json.load(answer)["code"]) == (408, "UPLOAD_TOO_SLOW")
        assert time.monotonic() - began < 5


def test_a_client_that_leaves_during_its_upload_gives_its_memory_back(server):
    for _ in range(30):  # 30 × 900 bytes are over what all bodies together may take
        with server.connect() as sock:
            sock.sendall(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 950\r\n\r\n" + b"x" * 900)
    time.sleep(0.2)
    assert server.ask("POST", "/a", b"x" * 900).status == 200


CHUNKED = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        CHUNKED + b"ZZ\r\nab\r\n",
        CHUNKED + b"-1\r\nab\r\n",
        CHUNKED + b"f" * 18 + b"\r\nab\r\n",
        CHUNKED + b"10\r\nab",
        b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab",
    ],
    ids=["no number", "negative", "huge", "cut in a chunk", "shorter than announced"],
)
def test_a_body_whose_framing_is_broken_is_a_bad_request(server, raw):
    with server.connect() as sock:
        sock.sendall(raw)
        sock.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert (answer.status, json.load(answer)["code"]) == (400, "BAD_REQUEST")


def test_headers_of_any_bytes_reach_django_as_latin_1(server):
    status, _, body = server.send(with_headers(b"Accept: \xb9", b"X-Signature: \xc3\xa9"))
    meta = json.loads(body)["meta"]
    assert status == 200
    assert meta["HTTP_ACCEPT"] == "\xb9"
    assert meta["HTTP_X_SIGNATURE"].encode("latin-1") == b"\xc3\xa9"


def test_a_header_sent_twice_is_joined_and_one_with_an_underscore_is_dropped(server):
    _, _, body = server.send(with_headers(b"X-A: 1", b"X-A: 2", b"Cookie: a=1", b"Cookie: b=2", b"X_B: spoofed"))
    meta = json.loads(body)["meta"]
    assert (meta["HTTP_X_A"], meta["HTTP_COOKIE"]) == ("1,2", "a=1; b=2")
    assert "HTTP_X_B" not in meta


@pytest.mark.parametrize(
    "value", [b"application/json; charset*=nope''x", b"a/b; charset*0*=\xff''x; x*=", b";", b"\xff"]
)
def test_a_content_type_that_cannot_be_read_is_the_callers_fault(server, value):
    assert server.send(with_headers(b"Content-Type: " + value))[0] in (200, 400)


@pytest.mark.parametrize(
    ("target", "path", "uri"),
    [
        (b"/a%20b%2Fc?x=%00", "/a b/c", "/a%20b%2Fc?x=%00"),
        (b"/%e4%b8%ad", "/\u4e2d", "/%e4%b8%ad"),
        (b"/%ff", "/%FF", "/%ff"),
        (b"/..%2f", "/../", "/..%2f"),
        (b"//two", "//two", "//two"),
        (b"/%00", "/\0", "/%00"),
    ],
)
def test_a_path_is_decoded_for_django_and_kept_as_sent_for_signatures(server, target, path, uri):
    status, _, body = server.send(with_headers(target=target))
    seen = json.loads(body)
    assert (status, seen["path"], seen["meta"]["REQUEST_URI"]) == (200, path, uri)


def test_the_clients_address_is_known(server):
    meta = json.load(server.ask("GET", "/"))["meta"]
    assert meta["REMOTE_ADDR"] == "127.0.0.1"
    assert int(meta["REMOTE_PORT"]) > 0


def test_a_head_request_gets_the_headers_only(server):
    answer = server.ask("HEAD", "/")
    assert (answer.status, answer.read()) == (200, b"")


def test_a_streamed_response_arrives_whole(server):
    assert server.ask("GET", "/pieces").read() == b"x" * 1_000_000


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def starting(**env: str) -> Server:
        started.append(Server(**env))
        return started[-1]

    yield starting
    for one in started:
        one.stop()


def test_a_full_pool_says_503_and_when_to_come_again(start):
    server = start(FRONT_QUEUE="0")
    busy = [server.connect() for _ in range(2)]
    for sock in busy:
        sock.sendall(with_headers(target=b"/slow?seconds=2"))
    time.sleep(0.5)
    status, headers, body = server.send(with_headers())
    assert (status, json.loads(body)["code"], headers["retry-after"]) == (503, "NOT_READY", "1")


def test_a_thousand_streams_hold_no_threads_and_end_with_the_server(start):
    server = start(FRONT_QUEUE="2000")
    before, threads = server.worker().memory_info().rss, server.worker().num_threads()
    streams = [server.connect() for _ in range(1000)]
    for sock in streams:
        sock.sendall(with_headers(target=b"/stream"))
    assert all(b": here" in read_until(sock, b": here") for sock in streams)
    assert server.ask("GET", "/quick").status == 200
    assert server.worker().num_threads() <= threads + 3
    assert server.worker().memory_info().rss - before < 100_000_000
    assert server.stop() < 4
    assert all(b": bye" in read_until(sock, b": bye") for sock in streams[::100])


def read_until(sock: socket.socket, word: bytes) -> bytes:
    seen = b""
    while word not in seen:
        piece = sock.recv(4096)
        if not piece:
            break
        seen += piece
    return seen

"""The fault proxy does to a connection what it says, and no more."""

import socket
import socketserver
import threading
import time
from contextlib import contextmanager

import pytest

from benchmarks.faults import FaultProxy


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1024):
            self.request.sendall(data)


@pytest.fixture
def proxy():
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with FaultProxy(server.server_address) as one:
            yield one
        server.shutdown()


@contextmanager
def connected(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=2) as one:
        yield one


def said_back(connection, text=b"hello"):
    connection.sendall(text)
    return connection.recv(1024)


def silent(connection, seconds=0.3):
    connection.settimeout(seconds)
    with pytest.raises(TimeoutError):
        connection.recv(1024)
    connection.settimeout(2)


def test_without_faults_everything_passes(proxy):
    with connected(proxy) as one:
        assert said_back(one) == b"hello"


def test_delay_counts_each_way(proxy):
    proxy.delay(0.1)
    with connected(proxy) as one:
        began = time.monotonic()
        assert said_back(one) == b"hello"
        assert 0.2 <= time.monotonic() - began < 1


def test_what_is_lost_comes_late(proxy):
    proxy.lose(1.0)
    with connected(proxy) as one:
        one.sendall(b"hello")
        silent(one)
        one.settimeout(10)
        assert one.recv(1024) == b"hello"


def test_a_partition_holds_everything_back_until_it_heals(proxy):
    with connected(proxy) as one, connected(proxy) as two:
        assert said_back(one) == b"hello"
        proxy.partition()
        one.sendall(b"again")
        two.sendall(b"new")
        silent(one)
        proxy.heal()
        assert (one.recv(1024), two.recv(1024)) == (b"again", b"new")


def test_half_open_connections_stay_silent_and_new_ones_work(proxy):
    with connected(proxy) as old:
        assert said_back(old) == b"hello"
        proxy.half_open()
        old.sendall(b"lost")
        silent(old)
        with connected(proxy) as new:
            assert said_back(new) == b"hello"


def test_refused_is_refused_until_it_listens_again(proxy):
    with connected(proxy) as old:
        said_back(old)
        proxy.refuse()
        with pytest.raises(ConnectionError):
            old.recv(1024)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port), timeout=2)
    proxy.listen()
    with connected(proxy) as new:
        assert said_back(new) == b"hello"

"""Watching the catalog over two web processes: how soon a change is heard in each, with Redis and without."""

import http.client
import json
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress

from tests.trips.world import until

FEWEST, MOST = 6, 40


class Watcher(threading.Thread):
    """Reads the stream and notes when each event came."""

    def __init__(self, platform, namespace, **headers):
        super().__init__(daemon=True)
        self.heard, self.last_id, self.is_over = [], "", False
        self.connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=60)
        headers["Authorization"] = f"Bearer {platform.demo['operatorKey']}"
        self.connection.request("GET", f"/v1/catalog/events?namespace={namespace}", headers=headers)
        self.socket = self.connection.sock
        self.start()
        until(lambda: self.last_id, 5, "the stream's first id")

    def run(self):
        try:
            for line in self.connection.getresponse():
                at = time.time()
                if line.startswith(b"id: "):
                    self.last_id = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    self.heard.append((at, json.loads(line[6:])))
        except (OSError, http.client.HTTPException):
            pass
        self.is_over = True

    def leave(self):
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def serving(platform, watchers):
    """The web processes that hold these watchers' connections."""
    ours = {one.socket.getsockname()[1] for one in watchers}
    return {
        process.pid
        for process in platform.processes()
        for one in process.net_connections("tcp")
        if one.laddr.port == platform.port and one.raddr and one.raddr.port in ours
    }


@contextmanager
def watched(platform, namespace):
    """Watchers in both web processes; which one takes a connection is the kernel's choice."""
    watchers = [Watcher(platform, namespace) for _ in range(FEWEST)]
    while len(serving(platform, watchers)) < 2 and len(watchers) < MOST:
        watchers.append(Watcher(platform, namespace))
    assert len(serving(platform, watchers)) == 2
    yield watchers
    for one in watchers:
        one.leave()


def register(world, instance):
    body = {"invokeUrl": f"{world.outside.url}/invoke"}
    world.platform.operator("PUT", f"/v1/agents/echo/instances/{instance}?namespace={world.namespace}", json=body)


def hearings(watcher, instance):
    """When the watcher heard that the instance was registered; others' states change beside it."""
    return [
        at
        for at, data in list(watcher.heard)
        if (data["event"], data.get("instanceId")) == ("instance.registered", instance)
    ]


def lags(world, watchers, instance):
    """Seconds from the answer to each watcher's hearing of it; the commit is before the answer."""
    register(world, instance)
    answered = time.time()
    until(lambda: all(hearings(one, instance) for one in watchers), 20, "every watcher's hearing")
    return [hearings(one, instance)[0] - answered for one in watchers]


def test_a_change_is_heard_in_both_web_processes_within_200_ms(world):
    with watched(world.platform, world.namespace) as watchers:
        lags(world, watchers, "first")  # the first one connects to Redis and warms up
        rounds = [lags(world, watchers, f"i{n}") for n in range(10)]
    assert max(max(one) for one in rounds) < 0.2, rounds


def test_without_redis_it_is_heard_within_five_seconds(world):
    (redis,) = world.platform.processes("redis-server")
    with watched(world.platform, world.namespace) as watchers:
        lags(world, watchers, "before")
        redis.send_signal(signal.SIGSTOP)
        try:
            assert max(lags(world, watchers, "meanwhile")) < 5
        finally:
            redis.send_signal(signal.SIGCONT)


def test_a_watcher_that_comes_back_to_any_process_misses_nothing_and_hears_nothing_twice(world):
    first = Watcher(world.platform, world.namespace)
    lags(world, [first], "before")
    first.leave()
    for instance in ("missed-1", "missed-2"):
        register(world, instance)
    for _ in range(6):
        again = Watcher(world.platform, world.namespace, **{"Last-Event-ID": first.last_id})
        until(lambda one=again: hearings(one, "missed-2"), 5, "what was missed")
        again.leave()
        told = [len(hearings(again, instance)) for instance in ("before", "missed-1", "missed-2")]
        assert told == [0, 1, 1]


def test_streams_end_when_the_web_server_stops(world):
    watcher = Watcher(world.platform, world.namespace)
    began = time.monotonic()
    for one in world.platform.processes("granian"):
        one.send_signal(signal.SIGTERM)
    until(lambda: watcher.is_over, 10, "the stream's end")
    assert time.monotonic() - began < 5
    world.platform.wait_ready()

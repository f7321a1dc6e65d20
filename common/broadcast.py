"""Hints between processes over Redis publish/subscribe.

A hint may be lost without anyone noticing (measured: three in a row across a restart, no error), so it only hurries
what a poll of PostgreSQL would find within a second. Publishing never blocks the caller: a bounded queue that drops,
emptied by one daemon thread.
"""

import functools
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from common import redis

_log = logging.getLogger(__name__)
_LIMIT = 10_000


class Publisher:
    """Sends hints from a thread of its own; `publish` returns at once and drops when the queue is full."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[str, object]] = queue.Queue(_LIMIT)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def publish(self, channel: str, message: object) -> None:
        if self._thread is None or not self._thread.is_alive():  # also after a fork
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="broadcast", daemon=True)
                    self._thread.start()
        try:
            self._queue.put_nowait((channel, message))
        except queue.Full:
            pass  # the poll covers

    def _run(self) -> None:
        while True:
            channel, message = self._queue.get()
            try:
                redis.call(functools.partial(_send, channel, message))
            except redis.RedisAway:
                pass


def _send(channel: str, message: object, client: Any) -> None:
    client.publish(redis.key(channel), msgspec.json.encode(message))


_publisher = Publisher()


def publish(channel: str, message: object) -> None:
    """Send `message` (JSON-able) to whoever listens on `channel` now; never blocks, never raises."""
    _publisher.publish(channel, message)


class Listener(threading.Thread):
    """Calls `on_message(channel, message)` for every hint, and `on_gap()` whenever hints may have been missed.

    `on_gap` is called after each (re)connection, once the subscription stands: load then, and nothing is lost in
    between.
    """

    def __init__(self, channels: list[str], on_message: Callable[[str, object], None], on_gap: Callable[[], None]):
        super().__init__(name="hints", daemon=True)
        self._channels = {redis.key(c).encode(): c for c in channels}
        self._on_message, self._on_gap = on_message, on_gap
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except Exception as problem:  # a listener that dies would turn every hint into a second's wait
                _log.debug("hints: %s", problem)
                time.sleep(0.5)

    def _listen(self) -> None:
        with redis.client(socket_timeout=5.0) as client, client.pubsub() as pubsub:
            pubsub.subscribe(*self._channels)
            waiting = len(self._channels)
            while not self._stopping.is_set():
                message = pubsub.get_message(timeout=1.0)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    waiting -= 1
                    if waiting <= 0:
                        self._on_gap()
                elif message["type"] == "message":
                    self._on_message(self._channels[message["channel"]], msgspec.json.decode(message["data"]))

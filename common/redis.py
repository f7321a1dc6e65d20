"""One way to reach Redis: short limits, no hidden retries, and a breaker so that a dead Redis costs nothing."""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

T = TypeVar("T")

_RETRY_AFTER_S = 1.0  # how long a failure keeps everyone in this process from trying again

_lock = threading.Lock()
_client: redis.Redis | None = None
_down_until = 0.0


class RedisAway(Exception):
    """Redis did not answer, or did not a moment ago; whoever asked goes on without it."""


def client(socket_timeout: float = 0.2) -> redis.Redis:
    """A new client with this project's limits; `socket_timeout` in seconds."""
    # redis-py's own retries turn a 0.2 s limit on a paused server into 6.5 s
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=socket_timeout,
        socket_connect_timeout=0.5,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


def call(work: Callable[[Any], T]) -> T:
    """`work(client)` on this process's shared client; raises RedisAway at once while the breaker is open."""
    global _client, _down_until
    if time.monotonic() < _down_until:
        raise RedisAway
    with _lock:
        _client = _client or client()
    try:
        return work(_client)
    except (redis.RedisError, OSError) as problem:
        _down_until = time.monotonic() + _RETRY_AFTER_S
        raise RedisAway(str(problem)) from problem


def is_away() -> bool:
    """Whether Redis failed a moment ago, so that `call` would not try."""
    return time.monotonic() < _down_until


class Script:
    """A Lua script that Redis is given once: `script(client, keys, values)`."""

    def __init__(self, text: str):
        self._text = text
        self._digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()  # the name that Redis gives it

    def __call__(self, client: Any, keys: Sequence[str], values: Sequence[Any]) -> Any:
        try:
            return client.evalsha(self._digest, len(keys), *keys, *values)
        except redis.exceptions.NoScriptError:  # its first use since Redis started
            return client.eval(self._text, len(keys), *keys, *values)


def key(*parts: str) -> str:
    """A key or channel under this platform's prefix."""
    return ":".join((settings.REACH_REDIS_PREFIX, *parts))

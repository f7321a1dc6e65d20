"""Receivers that read a Redis stream: `stream:{topic}` as a callback's address."""

import functools
from typing import Any

from django.conf import settings

from callbacks.messages import Due
from common import redis

SCHEME = "stream:"
FIELD = "result"


def address(topic: str) -> str:
    """What stands in the place of a URL."""
    return SCHEME + topic


def is_topic(url: str) -> bool:
    return url.startswith(SCHEME)


def key(namespace: str, topic: str) -> str:
    """The stream's key: reach:{namespace}:results:{topic}."""
    return redis.key(namespace, "results", topic)


def append(due: Due) -> str | None:
    """Add the body to its stream; what went wrong, or None. Blocks for a moment, raises nothing."""
    try:
        redis.call(functools.partial(_add, key(due.namespace, due.url.removeprefix(SCHEME)), due.body))
    except redis.RedisAway as error:
        return f"REDIS_AWAY: {error or 'it did not answer a moment ago'}"
    return None


def _add(stream: str, body: bytes, client: Any) -> None:
    client.xadd(stream, {FIELD: body}, maxlen=settings.REACH_RESULTS_KEPT, approximate=True)

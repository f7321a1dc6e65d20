"""Secrets that webhooks are signed with, as a row keeps them: encrypted, newest first, old ones while they overlap.

The clear form is [{"secret": "whsec_…", "until": null | RFC 3339}].
"""

from datetime import datetime
from typing import Any

from common import json
from common.clock import parse_time, rfc3339
from common.encoding import dumps
from common.secrets import decrypt, encrypt


def sealed(secret: str) -> bytes:
    """A first secret, for a row."""
    return _seal([{"secret": secret, "until": None}])


def rotated(raw: bytes | memoryview, secret: str, *, until: datetime, now: datetime) -> bytes:
    """The row's secrets with a new one in front; those from before end at `until`, or earlier where they would."""
    older = [_ended(one, until) for one in _opened(raw)]
    return _seal([{"secret": secret, "until": None}, *(one for one in older if parse_time(one["until"]) > now)])


def good(raw: bytes | memoryview | None, now: datetime) -> list[str]:
    """The secrets in clear that still count, newest first."""
    return [one["secret"] for one in _opened(raw) if one["until"] is None or parse_time(one["until"]) > now]


def _opened(raw: bytes | memoryview | None) -> list[dict[str, Any]]:
    return json.parse(decrypt(bytes(raw)).encode()) if raw else []


def _seal(secrets: list[dict[str, Any]]) -> bytes:
    return encrypt(dumps(secrets).decode())


def _ended(one: dict[str, Any], until: datetime) -> dict[str, Any]:
    text = rfc3339(until)
    return {**one, "until": text if one["until"] is None else min(one["until"], text or "")}

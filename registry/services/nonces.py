"""Each signature is good once: nonces remembered for twice the time in which a signature is accepted."""

import hashlib
from datetime import datetime, timedelta

from django.db import InterfaceError, OperationalError, connection

from common import redis
from common.errors import NotReady
from common.signing import MAX_SKEW
from registry.models import Nonce

KEPT = timedelta(seconds=2 * MAX_SKEW + 60)


def remember(access_key: str, nonce: str, now: datetime) -> bool:
    """Whether this nonce of this access key is new; exactly one of several racing calls hears True.

    Kept in Redis, in PostgreSQL while Redis is away. Raises NotReady when neither can remember it.
    """
    digest = hashlib.sha256(f"{access_key}\0{nonce}".encode("utf-8", "surrogatepass")).hexdigest()
    try:
        seconds = int(KEPT.total_seconds())
        return bool(redis.call(lambda r: r.set(redis.key("nonce", digest), 1, nx=True, ex=seconds)))
    except redis.RedisAway:
        return _remember_in_database(digest, now)


def forget_expired(now: datetime) -> int:
    """Drop what need not be remembered any longer; returns how many."""
    return Nonce.objects.filter(expires_at__lt=now).delete()[0]


def _remember_in_database(digest: str, now: datetime) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO registry_nonce (digest, expires_at) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                [digest, now + KEPT],
            )
            return bool(cursor.rowcount == 1)
    except (OperationalError, InterfaceError):
        raise NotReady("signatures cannot be checked for replay just now; use a bearer key or try again") from None

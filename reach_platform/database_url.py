"""DATABASE_URL and REDIS_URL in the forms that Django, redis-py and Celery's broker want."""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

# A dead peer is noticed after 30 + 3 × 10 s of silence instead of the system's two hours.
KEEPALIVES = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


def django_database(url: str) -> dict[str, Any]:
    """Returns Django's DATABASES entry of a PostgreSQL URL.

    Both `postgresql://user:password@host:5432/name?sslmode=require` and, for a unix socket,
    `postgresql:///name?host=/directory&user=name` are understood; other parameters go to libpq.
    """
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    host = options.pop("host", None) or unquote(parts.hostname or "")
    return {
        "ENGINE": "common.postgresql",
        "NAME": options.pop("dbname", None) or unquote(parts.path.lstrip("/")) or "reach",
        "USER": options.pop("user", None) or unquote(parts.username or ""),
        "PASSWORD": options.pop("password", None) or unquote(parts.password or ""),
        "HOST": host,
        "PORT": options.pop("port", None) or str(parts.port or ""),
        "CONN_MAX_AGE": None,
        # A check before each use would cost a round trip; the backend looks at the socket instead.
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": {
            "application_name": "agent-reach",
            "connect_timeout": 5,
            # Django leaves prepared statements off. With a threshold that no statement reaches by itself, those are
            # prepared that ask for it; planning them anew each time cost more than running them.
            "prepare_threshold": 1 << 30,
            **KEEPALIVES,
            **options,
        },
    }


def broker_url(redis_url: str) -> str:
    """Returns the URL that Celery's Redis transport wants: it calls a unix socket `redis+socket`."""
    scheme, separator, rest = redis_url.partition("://")
    if scheme != "unix":
        return redis_url
    path, _, query = rest.partition("?")
    parameters = dict(parse_qsl(query))
    virtual_host = parameters.pop("db", "0")
    return f"redis+socket{separator}{path}?virtual_host={virtual_host}"

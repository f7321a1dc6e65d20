"""The append-only log of every change and of every human action."""

from datetime import datetime
from typing import Any

from registry.models import Audit


def record(
    actor: str,
    action: str,
    object: str,
    *,
    namespace: str = "",
    before: Any = None,
    after: Any = None,
    ip: str = "",
    now: datetime,
) -> None:
    """Add one entry within the caller's transaction; `before` and `after` are JSON without secrets.

    `action` is like `client.create`, `object` like `client:shop`.
    """
    Audit.objects.create(
        at=now, actor=actor[:200], action=action, object=object[:300], namespace=namespace, before=before, after=after,
        ip=ip[:64],
    )  # fmt: skip

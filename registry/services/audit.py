"""The append-only log of every change and of every human action."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

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


class Origin(TypedDict):
    """Who, and from which address, as keyword arguments of services."""

    actor: str
    ip: str


@dataclass(frozen=True)
class Author:
    """Who does something, when, and from which address."""

    actor: str
    now: datetime
    ip: str = ""

    def did(self, action: str, object: str, *, namespace: str = "", before: Any = None, after: Any = None) -> None:
        """Record it within the caller's transaction."""
        record(self.actor, action, object, namespace=namespace, before=before, after=after, ip=self.ip, now=self.now)

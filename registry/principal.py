"""Who is asking: the one value that authentication hands to views and services."""

import functools
import uuid
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

OPERATOR_SCOPES = frozenset({"admin"})
AGENT_SCOPES = frozenset({"agent:register", "agent:work", "tasks:write"})
CLIENT_SCOPES = ("tasks:write", "tasks:read", "catalog:read", "route", "route:endpoint")
ATTEMPT_SCOPES = frozenset({"agent:work"})


@dataclass(frozen=True, slots=True)
class Principal:
    """A credential's owner. `kind` is client, agent, operator, or attempt (a result token, with `task_id` and
    `attempt_key`); `namespace` is None for operators and attempts."""

    kind: str
    namespace: str | None
    client: str | None
    agent_id: str | None
    scopes: frozenset[str]
    abilities: tuple[str, ...] = ()
    limits: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    callback_schedule: str = "standard"
    task_id: uuid.UUID | None = None
    attempt_key: str | None = None

    is_authenticated = True  # what REST framework asks of a user
    is_active = True

    @property
    def is_operator(self) -> bool:
        return self.kind == "operator"

    def may(self, *scopes: str) -> bool:
        """Whether one of the scopes is held; operators may everything."""
        return self.is_operator or not self.scopes.isdisjoint(scopes)

    def may_use(self, ability: str) -> bool:
        """Whether it may ask for this ability; only clients are bound to some."""
        return self.kind != "client" or _covers(self.abilities, ability)

    def __str__(self) -> str:
        return self.name


@functools.lru_cache(maxsize=4096)
def _covers(patterns: tuple[str, ...], ability: str) -> bool:
    return any(fnmatchcase(ability, pattern) for pattern in patterns)

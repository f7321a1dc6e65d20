"""What a task asks of the routing: the facts that filters and strategies look at."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from routing.loads import Key
from routing.snapshot.model import CapabilityView

MAX_HOPS = 8
SCHEMA_VERSION = "1.0"  # of the messages that agents get


class Load(Protocol):
    """How busy an instance is."""

    def inflight(self, key: Key) -> int: ...

    def counts(self, keys: Iterable[Key]) -> list[int]: ...

    def own(self, key: Key) -> int: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One task in search of an instance. `left_ms` is what is left of its time. `fits` tells whether the payload fits a
    capability's input schema; None where all candidates have the same one, which was checked at the door. `context`
    names the metadata that comes with it, `zones` those that this worker serves (none = all), `network` the one of a
    caller that calls by itself; None where it is not known or does not matter."""

    namespace: str
    ability: str
    task_id: uuid.UUID
    left_ms: int
    session_id: str | None = None
    agent_id: str | None = None  # pinned by the caller
    tags: tuple[str, ...] = ()
    requires: dict[str, Any] = field(default_factory=dict)
    prefer_local: str | None = None
    call_path: tuple[str, ...] = ()  # agents that this task came through, oldest first
    loops_allowed: int = 1
    fits: Callable[[CapabilityView], bool] | None = None
    context: frozenset[str] | None = None
    zones: frozenset[str] = frozenset()
    network: str | None = None
    direct: bool = False  # the caller will call by itself
    now: dt.datetime | None = None  # for those that begin slowly; None = nobody does
    barred: frozenset[tuple[str, str]] = frozenset()  # instances that breakers keep this task from

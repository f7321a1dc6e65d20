"""Registered instances as this process last read them, so that a heartbeat with nothing new asks no database."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from registry.health import HealthSettings

KEPT_S = 600.0  # changes show by their mark; this covers a process that ended between a commit and its mark
PLACES_KEPT = 50_000

Key = tuple[str, str, str]  # namespace, agent id, instance id


@dataclass(slots=True)
class Place:
    """What a heartbeat is compared with. `rev` is the mark that the row's changes are known by; `written_at` when the
    row's heard-time was last written from here; `read_at` is monotonic."""

    pk: int
    state: str
    state_since: float
    draining: bool
    weight_percent: int
    status: str
    components: dict[str, str]
    complaint: str
    good_since: float | None
    settings: HealthSettings
    written_at: float
    read_at: float
    rev: bytes | None = None


_lock = threading.Lock()
_places: dict[Key, Place] = {}
_keys: dict[int, Key] = {}


def get(key: Key, load: Callable[[], Place | None]) -> Place | None:
    """The place, loaded if it is not known or was read too long ago; what is not there is not remembered."""
    known = _places.get(key)
    if known is not None and time.monotonic() - known.read_at < KEPT_S:
        return known
    return refresh(key, load)


def refresh(key: Key, load: Callable[[], Place | None]) -> Place | None:
    """Load it now."""
    place = load()
    with _lock:
        if len(_places) >= PLACES_KEPT:
            _places.clear()
            _keys.clear()
        if place is None:
            _places.pop(key, None)
        else:
            _places[key] = place
            _keys[place.pk] = key
    return place


def forget(instance_pk: int) -> None:
    """Read it anew at the next use."""
    with _lock:
        key = _keys.pop(instance_pk, None)
        if key is not None:
            _places.pop(key, None)


def forget_all() -> None:
    with _lock:
        _places.clear()
        _keys.clear()


def says_something_new(place: Place, body: dict[str, Any], complaint: str) -> bool:
    """Whether the row must hear of this heartbeat."""
    draining, percent = body.get("status") == "draining", body.get("weightPercent", place.weight_percent)
    said = body.get("status", "ok"), body.get("components", {}), complaint
    return (place.draining, place.weight_percent) != (draining, percent) or (
        said != (place.status, place.components, place.complaint)
    )

"""Evidence of this process alone, while Redis is away; bounded, and never more than one process saw."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from registry.health import Call, Probe

INSTANCES_KEPT = 20_000

_lock = threading.Lock()
_heard: dict[int, float] = {}
_beats: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=10))
_probes: dict[int, deque[Probe]] = defaultdict(lambda: deque(maxlen=20))
_calls: dict[int, deque[Call]] = defaultdict(lambda: deque(maxlen=200))
_dirty: set[int] = set()
_away_since: float | None = None
_ALL: tuple[Any, ...] = (_heard, _beats, _probes, _calls)


def heard(instance_pk: int, at: float, good: bool) -> None:
    def note() -> None:
        _heard[instance_pk] = at
        if good:
            _beats[instance_pk].append(at)
        else:
            _beats.pop(instance_pk, None)

    _keep(note)


def probed(instance_pk: int, probe: Probe) -> None:
    def note() -> None:
        _probes[instance_pk].append(probe)
        _dirty.add(instance_pk)

    _keep(note)


def called(instance_pk: int, calls: Iterable[Call]) -> None:
    def note() -> None:
        _calls[instance_pk].extend(calls)
        _dirty.add(instance_pk)

    _keep(note)


def read(instance_pk: int) -> tuple[Any, ...]:
    """In the order of `evidence.Kept`: no inflight, resources, baseline, score and slate."""
    with _lock:
        beats, probes, calls = (tuple(kept.get(instance_pk, ())) for kept in (_beats, _probes, _calls))
        return _heard.get(instance_pk), None, None, None, None, 0.0, beats, probes, calls


def heard_at(instance_pk: int) -> float | None:
    return _heard.get(instance_pk)


def round_of(prober: str, since: float) -> dict[int, Probe]:
    with _lock:
        newest = {pk: probes[-1] for pk, probes in _probes.items() if probes}
    return {pk: probe for pk, probe in newest.items() if probe.prober == prober and probe.at >= since}


def take_dirty(limit: int) -> list[int]:
    with _lock:
        return [_dirty.pop() for _ in range(min(limit, len(_dirty)))]


def forget(instance_pk: int) -> None:
    with _lock:
        for kept in _ALL:
            kept.pop(instance_pk, None)


def redis_away_since(now: float) -> float:
    """When this process noticed that Redis is away."""
    global _away_since
    _away_since = now if _away_since is None else _away_since
    return _away_since


def redis_is_back() -> None:
    global _away_since
    _away_since = None


def _keep(note: Callable[[], None]) -> None:
    with _lock:
        for kept in _ALL:
            if len(kept) > INSTANCES_KEPT:
                kept.clear()
        note()

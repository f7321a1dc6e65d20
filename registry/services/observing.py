"""Taking in what the engines see of instances, which they know by name."""

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from registry.instance_cache import Key
from registry.models import Instance
from registry.services import evidence, judging

KNOWN_S = 60.0
KEYS_KNOWN = 50_000

_lock = threading.Lock()
_pks: dict[Key, tuple[float, int]] = {}


class Observed(NamedTuple):
    """One live call of the instance (namespace, agent id, instance id); the rest as in `evidence.Seen`."""

    key: Key
    result: str
    ms: float | None
    code: str
    at: datetime
    fits: bool | None = None


def observed(batch: Collection[Observed], failing: Collection[Key], now: datetime) -> int:
    """Note live calls, and judge those that fail in a row now; returns how many moved."""
    pks = _pks_of({one.key for one in batch})
    evidence.called(evidence.Seen(pks[one.key], *one[1:]) for one in batch if one.key in pks)
    return judging.judge_instances([pks[key] for key in failing if key in pks], now)


def _pks_of(keys: Collection[Key]) -> dict[Key, int]:
    moment = time.monotonic()
    known = {key: entry[1] for key in keys if (entry := _pks.get(key)) and moment - entry[0] < KNOWN_S}
    missing = [key for key in keys if key not in known]
    if missing:
        found = _looked_up(missing)
        with _lock:
            if len(_pks) > KEYS_KNOWN:
                _pks.clear()
            _pks.update({key: (moment, pk) for key, pk in found.items()})
        known.update(found)
    return known


def _looked_up(keys: Iterable[Key]) -> dict[Key, int]:
    by_namespace: dict[str, set[Key]] = defaultdict(set)
    for key in keys:
        by_namespace[key[0]].add(key)
    found = {}
    for namespace, wanted in by_namespace.items():
        rows = Instance.objects.filter(
            agent__namespace=namespace,
            agent__agent_id__in={agent_id for _, agent_id, _ in wanted},
            instance_id__in={instance_id for _, _, instance_id in wanted},
        )
        for pk, agent_id, instance_id in rows.values_list("pk", "agent__agent_id", "instance_id"):
            if (namespace, agent_id, instance_id) in wanted:
                found[namespace, agent_id, instance_id] = pk
    return found

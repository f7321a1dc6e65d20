"""How the instances of this process's snapshots answer, read from the evidence every few seconds and never by a choice.

The health part is the snapshot's own; latency and success are what the registry last worked out. While Redis is away,
and for an instance without traffic, what was known last stays.
"""

import logging
from collections.abc import Iterable

from common.redis import RedisAway
from registry.services import evidence
from registry.services.evidence import Scored
from routing.snapshot.model import InstanceView, Snapshot, Vitals

log = logging.getLogger(__name__)

EACH_S = 5.0
AT_ONCE = 1000

_latest: dict[int, Scored] = {}


def vitals(instance_pk: int, health: float) -> Vitals:
    """Those of an instance that a snapshot is just built of, with what this process knows already."""
    known = _latest.get(instance_pk)
    return Vitals(health, known.latency, known.success, known.mean_ms) if known else Vitals(health)


def refresh(snapshots: Iterable[Snapshot]) -> None:
    """Refill the vitals of every instance in these snapshots; one round trip to Redis a thousand."""
    views = [one for known in snapshots for agent in known.agents.values() for one in agent.instances if one.pk]
    for start in range(0, len(views), AT_ONCE):
        try:
            _refill(views[start : start + AT_ONCE])
        except RedisAway:
            return
    for gone in _latest.keys() - {one.pk for one in views}:
        del _latest[gone]


def _refill(views: list[InstanceView]) -> None:
    for pk, scored in (found := evidence.scores([one.pk for one in views])).items():
        _latest[pk] = scored
    for one in views:
        if scored_now := found.get(one.pk):
            one.vitals.refill(scored_now.latency, scored_now.success, scored_now.mean_ms)

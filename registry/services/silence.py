"""Instances that are not heard any more: found, unless it is the platform that could not hear."""

import logging
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import F

from common.database import hot_cursor, robust
from registry.models import Instance
from registry.services import evidence, figures, judging
from registry.states import InstanceState

log = logging.getLogger(__name__)

FLUSHED_S = 20.0  # heard-times of so long are written at a time
FLUSHED_AT_ONCE = 5000
FORGOTTEN_AFTER = timedelta(days=1)
SWEEP_AT_ONCE = 2000
FEWEST_FOR_DEAFNESS = 4  # fewer may well all fall silent by themselves


def check_heartbeats(now: datetime) -> int:
    """Take out what was not heard for 30 s; forget what left a day ago. Returns how many were lost."""
    limit = now - timedelta(seconds=figures.platform().lost_after_s)
    late = Instance.objects.filter(implicit=False, left_at=None, last_heard_at__lte=limit, agent__deleted_at=None)
    found = list(late.exclude(state=InstanceState.OFFLINE).order_by("last_heard_at").values_list("pk", flat=True))
    heard = evidence.heard_at(found)
    silent = [pk for pk in found if heard.get(pk, 0.0) <= limit.timestamp()]
    lost = 0 if _is_deaf(silent, limit) else judging.judge_instances(silent[:SWEEP_AT_ONCE], now)
    Instance.objects.filter(left_at__lt=now - FORGOTTEN_AFTER).delete()
    return lost


def check_without_broker(now: datetime) -> int:
    """The same where no job would bring it about: while Redis is away, by the heard-times that the rows have."""
    return check_heartbeats(now) if evidence.away_since(now) is not None else 0


def write_heard(now: datetime) -> int:
    """Bring the rows' heard-times up to date from what was heard lately; returns how many were."""
    heard = evidence.heard_since(now.timestamp() - FLUSHED_S)
    return sum(_write_heard(heard[at : at + FLUSHED_AT_ONCE]) for at in range(0, len(heard), FLUSHED_AT_ONCE))


def _is_deaf(silent: Collection[int], limit: datetime) -> bool:
    """Whether nobody at all is heard, though most of the silent have answered a probe since they fell silent."""
    if len(silent) < FEWEST_FOR_DEAFNESS or evidence.heard_since(limit.timestamp()):
        return False
    if Instance.objects.filter(last_heard_at__gt=limit, left_at=None).exists():
        return False
    answer = Instance.objects.filter(pk__in=silent, probe_failures=0, probed_at__gt=F("last_heard_at")).count()
    if 2 * answer <= len(silent):
        return False
    log.warning("no heartbeat of any instance arrives, but most answer probes: that changes nothing")
    return True


@robust(patience=5.0)
def _write_heard(heard: list[tuple[int, float]]) -> int:
    with hot_cursor() as cursor:
        cursor.execute(
            "UPDATE registry_instance AS i SET last_heard_at = to_timestamp(h.at) "
            "FROM unnest(%s::bigint[], %s::float8[]) AS h (id, at) "
            "WHERE i.id = h.id AND i.left_at IS NULL AND i.last_heard_at < to_timestamp(h.at)",
            [[pk for pk, _ in heard], [at for _, at in heard]],
        )
        return int(cursor.rowcount)

"""The jobs of routing: each safe to run twice, late, or not at all."""

import contextlib
import uuid

from celery import shared_task
from django.conf import settings

from common.clock import now
from common.redis import RedisAway
from routing.engine.loop import current
from routing.services import partitions
from routing.services.mend_slots import mend
from routing.services.sweep import sweep as sweep_tasks


@shared_task(name="routing.jobs.dispatch")
def dispatch(ids: list[str]) -> None:
    """Claim these tasks for this worker's engine; returns once the claim is committed."""
    engine = current()
    if engine is not None:
        engine.claim([uuid.UUID(task_id) for task_id in ids])


@shared_task(name="routing.jobs.look")
def look() -> None:
    """Look for due work now."""
    engine = current()
    if engine is not None:
        engine.look()


@shared_task(name="routing.jobs.sweep")
def sweep() -> None:
    """End what is overdue and take over what dead workers held."""
    sweep_tasks(now())


@shared_task(name="routing.jobs.mend_slots")
def mend_slots() -> None:
    """Have Redis know the slots of all open attempts, and of no others."""
    with contextlib.suppress(RedisAway):
        mend()


@shared_task(name="routing.jobs.keep_partitions")
def keep_partitions() -> None:
    """Attach the partitions of the weeks ahead, those of callbacks too."""
    partitions.keep(now())


@shared_task(name="routing.jobs.drop_old")
def drop_old() -> None:
    """Drop what is older than the retention."""
    partitions.drop_old(now(), settings.REACH_RETENTION_DAYS)

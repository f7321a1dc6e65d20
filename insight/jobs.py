"""This package's jobs: each safe to run twice, on time or late."""

from celery import shared_task

from common.clock import now
from insight.services import alerts, bulk


@shared_task(name="insight.jobs.watch")
def watch() -> None:
    """Look for what is worth an alert."""
    alerts.watch(now())


@shared_task(name="insight.jobs.bulk")
def work_on_bulk() -> None:
    """Go on with the bulk actions that are running."""
    bulk.work(now())

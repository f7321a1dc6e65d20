"""This package's jobs: each safe to run twice, on time or late."""

from celery import shared_task

from common.clock import now
from insight.services import alerts


@shared_task(name="insight.jobs.watch")
def watch() -> None:
    """Look for what is worth an alert."""
    alerts.watch(now())

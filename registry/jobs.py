"""The registry's jobs: each safe to run twice, on time or late."""

from celery import shared_task

from common.clock import now
from registry.services import instances, nonces


@shared_task(name="registry.jobs.check_heartbeats")
def check_heartbeats() -> None:
    """Take out instances that were not heard, and forget nonces that are too old to matter."""
    at = now()
    instances.check_heartbeats(at)
    nonces.forget_expired(at)

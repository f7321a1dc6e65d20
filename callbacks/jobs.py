"""The jobs of callbacks: each safe to run twice, late, or not at all."""

from celery import shared_task

from callbacks import services
from common.clock import now


@shared_task(name="callbacks.jobs.sweep")
def sweep() -> None:
    """Give up callbacks whose every try was begun and never reported."""
    services.sweep(now())

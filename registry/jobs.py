"""The registry's jobs: each safe to run twice, on time or late."""

from datetime import timedelta
from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown
from django.conf import settings

from common.clock import now
from registry.services import firings, judging, nonces, probing, scoring, silence

HOOKS_DRAIN_S = 10.0  # as long as a receiver may take


@shared_task(name="registry.jobs.check_heartbeats")
def check_heartbeats() -> None:
    """Take out instances that were not heard, and forget nonces that are too old to matter."""
    at = now()
    silence.check_heartbeats(at)
    nonces.forget_expired(at)


@shared_task(name="registry.jobs.judge")
def judge() -> None:
    """Judge whoever there is new evidence of."""
    judging.judge_dirty(now())


@shared_task(name="registry.jobs.score")
def score() -> None:
    """Score who has traffic, and write down when instances were last heard."""
    at = now()
    silence.write_heard(at)
    scoring.score_active(at)


@shared_task(name="registry.jobs.probe")
def probe() -> None:
    """Begin the probes that are due."""
    probing.tick(now())


@shared_task(name="registry.jobs.fire_hooks")
def fire_hooks() -> None:
    """Begin to tell what hooks have to tell."""
    firings.tick(now())


@shared_task(name="registry.jobs.sweep_hooks")
def sweep_hooks() -> None:
    """Give up firings that were begun and never reported, and forget old ones."""
    firings.sweep(now(), timedelta(days=settings.REACH_RETENTION_DAYS))


@worker_shutdown.connect
def finish_hooks(**_: Any) -> None:
    """Whoever is being told just now is not told again after the restart."""
    firings.stop(HOOKS_DRAIN_S)

"""The registry's jobs: each safe to run twice, on time or late."""

from celery import shared_task

from common.clock import now
from registry.services import instances, judging, nonces, probing, scoring


@shared_task(name="registry.jobs.check_heartbeats")
def check_heartbeats() -> None:
    """Take out instances that were not heard, and forget nonces that are too old to matter."""
    at = now()
    instances.check_heartbeats(at)
    nonces.forget_expired(at)


@shared_task(name="registry.jobs.judge")
def judge() -> None:
    """Judge whoever there is new evidence of."""
    judging.judge_dirty(now())


@shared_task(name="registry.jobs.score")
def score() -> None:
    """Score who has traffic, and write down when instances were last heard."""
    at = now()
    instances.write_heard(at)
    scoring.score_active(at)


@shared_task(name="registry.jobs.probe")
def probe() -> None:
    """Begin the probes that are due."""
    probing.tick(now())

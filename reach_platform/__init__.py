"""Wiring only: settings, Celery, URLs, the embedded servers and the supervisor."""

import gc

# Every process imports this first. Python looks for reference cycles after each 700 new objects, which took a quarter
# of a worker's CPU time, some of it in pauses of a third of a second (docs/decisions/0005-garbage.md).
gc.set_threshold(50_000, 20, 10)

from reach_platform.celery import app as celery_app  # noqa: E402 - its import is the first to gain from it

__all__ = ["celery_app"]

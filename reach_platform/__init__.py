"""Wiring only: settings, Celery, URLs, the embedded servers and the supervisor."""

from reach_platform.celery import app as celery_app

__all__ = ["celery_app"]

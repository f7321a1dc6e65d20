"""The Celery application: its queues and the table of periodic jobs, in one place."""

import os
import sys
import warnings
from typing import Any

from celery import Celery
from celery.platforms import SecurityWarning
from celery.signals import setup_logging, task_postrun, task_prerun
from kombu import Exchange, Queue

from reach_platform import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reach_platform.settings")

QUEUES = ("dispatch", "callbacks", "probes", "upkeep")

JOB_QUEUES = {
    "routing.jobs.dispatch": "dispatch",
    "callbacks.jobs.*": "callbacks",
    "registry.jobs.*": "probes",
    "routing.jobs.*": "upkeep",
    "insight.jobs.*": "upkeep",
}

# Name → (job, seconds between two runs). A run that waited for longer is dropped: the next one does it all.
BEAT_JOBS = {
    "sweep-tasks": ("routing.jobs.sweep", 5),
    "mend-slots": ("routing.jobs.mend_slots", 60),
    "sweep-callbacks": ("callbacks.jobs.sweep", 5),
    "check-heartbeats": ("registry.jobs.check_heartbeats", 5),
    "probe": ("registry.jobs.probe", 1),
    "judge-instances": ("registry.jobs.judge", 1),
    "score-instances": ("registry.jobs.score", 15),
    "fire-hooks": ("registry.jobs.fire_hooks", 1),
    "sweep-hooks": ("registry.jobs.sweep_hooks", 60),
    "watch-for-alerts": ("insight.jobs.watch", 15),
    "bulk-actions": ("insight.jobs.bulk", 2),
    "keep-partitions": ("routing.jobs.keep_partitions", 3600),
    "drop-old": ("routing.jobs.drop_old", 86_400),
}

# Root is warned about because pickled messages could run code; ours are JSON and nothing else is accepted.
warnings.filterwarnings("ignore", category=SecurityWarning)

broker.install()
app = Celery("reach")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Named exchanges: queues that share the default one would each get every message.
# A nudge is only a hint, and the poll of the database finds what a lost one told of: it needs no acknowledgement, which
# was a third of what a message costs.
app.conf.task_queues = [
    Queue(name, Exchange(name), routing_key=name, no_ack=name == "dispatch")  # type: ignore[no-untyped-call]
    for name in QUEUES
]
app.conf.task_routes = {job: {"queue": queue} for job, queue in JOB_QUEUES.items()}
app.conf.beat_schedule = {
    name: {"task": job, "schedule": float(seconds), "options": {"expires": seconds}}
    for name, (job, seconds) in BEAT_JOBS.items()
}
# Celery's Django fixup closes the database connection around every job, which costs more than most jobs do: PostgreSQL
# forks a process per connection. The fixup reads this key as it stands, outside the CELERY namespace; with it the
# connection stays. What the closing was good for, dropping a broken connection, is done below by Django's own rule.
app.conf.CELERY_DB_REUSE_MAX = sys.maxsize
app.autodiscover_tasks(related_name="jobs")


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery leaves logging alone when anyone listens here: Django has set it up from the settings."""


@task_prerun.connect
@task_postrun.connect
def drop_broken_connections(**_: Any) -> None:
    from django.db import close_old_connections

    close_old_connections()


# A name, not the class: Celery imports it when a worker starts, after Django is set up.
app.steps["worker"].add("routing.engine.bootstep:EngineStep")

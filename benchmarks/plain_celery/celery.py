import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.plain_celery.settings")
app = Celery("plain_celery")
app.config_from_object("django.conf:settings", namespace="CELERY")
if reuse := os.environ.get("CELERY_DB_REUSE_MAX"):
    # The Django fixup reads this key as it stands, outside the namespace.
    app.conf.CELERY_DB_REUSE_MAX = int(reuse)
app.autodiscover_tasks(related_name="jobs")

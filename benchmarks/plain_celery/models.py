"""One table: a task with its result and the fate of its callback."""

import uuid

from django.db import models


class Task(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    correlation_id = models.CharField(max_length=128, unique=True)
    ability = models.CharField(max_length=128)
    payload = models.JSONField()
    callback_url = models.URLField(max_length=500)
    state = models.CharField(max_length=16, default="RECEIVED")
    result = models.JSONField(null=True)
    callback_state = models.CharField(max_length=16, default="PENDING")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "plain_celery"
        indexes = [models.Index(fields=["state", "created_at"])]

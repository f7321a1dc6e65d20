"""The two Celery tasks of a trip: call the agent, then tell the caller."""

import requests
from celery import shared_task
from django.conf import settings

from .models import Task

RETRIED = {"autoretry_for": (requests.RequestException,), "retry_backoff": 1, "max_retries": 3}


@shared_task(**RETRIED)
def dispatch(task_id):
    task = Task.objects.get(pk=task_id)
    body = {"taskId": task_id, "correlationId": task.correlation_id, "payload": task.payload}
    response = requests.post(settings.AGENT_URL, json=body, timeout=(0.8, 30))
    response.raise_for_status()
    task.result = response.json()
    task.state = task.result["status"]
    task.save(update_fields=["result", "state", "updated_at"])
    deliver.delay(task_id)


@shared_task(**RETRIED)
def deliver(task_id):
    task = Task.objects.get(pk=task_id)
    body = {"taskId": task_id, "correlationId": task.correlation_id, "state": task.state, "result": task.result}
    requests.post(task.callback_url, json=body, timeout=10).raise_for_status()
    task.callback_state = "DELIVERED"
    task.save(update_fields=["callback_state", "updated_at"])

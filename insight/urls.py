"""Addresses of this package: `v1` goes under /v1/, `root` under /."""

from django.urls import include, path

from insight import api
from insight.agent_api import AgentStats, Baselines
from insight.alert_api import AcknowledgeAlert, Alerts
from insight.bulk_api import Bulks, OneBulk, StopBulk

v1 = [
    path("tasks/<str:task_id>/journey", api.JourneyView.as_view(), name="task-journey"),
    path("traces/<str:trace_id>", api.TraceView.as_view(), name="trace"),
    path("agents/<agent_id:agent_id>/stats", AgentStats.as_view(), name="agent-stats"),
    path("alerts", Alerts.as_view(), name="alerts"),
    path("alerts/<uuid:alert_id>/ack", AcknowledgeAlert.as_view(), name="ack-alert"),
    path("baselines", Baselines.as_view(), name="baselines"),
    path("bulk", Bulks.as_view(), name="bulks"),
    path("bulk/<uuid:bulk_id>", OneBulk.as_view(), name="bulk"),
    path("bulk/<uuid:bulk_id>/stop", StopBulk.as_view(), name="stop-bulk"),
    path("usage", api.UsageView.as_view(), name="usage"),
]

root = [
    path("healthz", api.healthz, name="healthz"),
    path("readyz", api.readyz, name="readyz"),
    path("metrics", api.metrics_page, name="metrics"),
    path("console/", include("insight.console.urls")),
]

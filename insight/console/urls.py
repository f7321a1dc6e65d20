"""Addresses under /console/."""

from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.i18n import set_language

from insight.console import actions, alerts, bulk, callbacks, catalog, dashboards, live, saved, traces, views, who

app_name = "console"

urlpatterns = [
    path("", views.task_list, name="tasks"),
    path("tasks/<str:task_id>/", views.task_page, name="task"),
    path("tasks/<str:task_id>/<str:action>", actions.act, name="act"),
    path("live/tasks", live.tasks, name="live-tasks"),
    path("live/tasks/<str:task_id>", live.task, name="live-task"),
    path("live/bulk/<str:bulk_id>", live.bulk, name="live-bulk"),
    path("traces/<str:trace_id>/", traces.page, name="trace"),
    path("callbacks/", callbacks.browse, name="callbacks"),
    path("bulk/", bulk.browse, name="bulks"),
    path("bulk/new", bulk.new, name="new-bulk"),
    path("bulk/<str:bulk_id>/", bulk.page, name="bulk"),
    path("bulk/<str:bulk_id>/stop", bulk.stop, name="stop-bulk"),
    path("dashboards/", dashboards.page, name="dashboards"),
    path("who/", who.ask, name="who"),
    path("views/", saved.save, name="save-view"),
    path("catalog/", catalog.browse, name="catalog"),
    path("catalog/ability/", catalog.ability, name="ability"),
    path("agents/<str:namespace>/<str:agent_id>/", catalog.agent, name="agent"),
    path("alerts/", alerts.browse, name="alerts"),
    path("alerts/<str:alert_id>/ack", alerts.acknowledge, name="acknowledge"),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="console:login"), name="logout"),
    path("language/", set_language, name="language"),
]

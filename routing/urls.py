"""Addresses of this package, under /v1/."""

from django.urls import path

from routing.api import callbacks, choose, lease, reach, reports, routes, tasks

v1 = [
    path("reach", reach.ReachView.as_view(), name="reach"),
    path("reach/batch", reach.BatchView.as_view(), name="reach-batch"),
    path("tasks", tasks.TasksView.as_view(), name="tasks"),
    path("tasks/<str:task_id>", tasks.TaskView.as_view(), name="task"),
    path("tasks/<str:task_id>/cancel", tasks.CancelView.as_view(), name="task-cancel"),
    path("tasks/<str:task_id>/retry", tasks.RetryView.as_view(), name="task-retry"),
    path("tasks/<str:task_id>/callback/redeliver", tasks.RedeliverView.as_view(), name="task-redeliver"),
    path("tasks/<str:task_id>/events", tasks.EventsView.as_view(), name="task-events"),
    path("tasks/<str:task_id>/receipt", reports.ReceiptView.as_view(), name="task-receipt"),
    path("tasks/<str:task_id>/progress", reports.ProgressView.as_view(), name="task-progress"),
    path("tasks/<str:task_id>/result", reports.ResultView.as_view(), name="task-result"),
    path("agents/<str:agent_id>/lease", lease.LeaseView.as_view(), name="agent-lease"),
    path("abilities", choose.AbilitiesView.as_view(), name="abilities"),
    path("routes", routes.RoutesView.as_view(), name="routes"),
    path("routes/<str:ability>", routes.RouteView.as_view(), name="route"),
    path("route", choose.ChooseView.as_view(), name="choose"),
    path("route/<str:decision_id>/outcome", choose.OutcomeView.as_view(), name="route-outcome"),
    path("callbacks/redeliver", callbacks.RedeliverManyView.as_view(), name="callbacks-redeliver"),
]

"""Tasks, workers and leaders: looked at by operators, written by programs only."""

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from common.ids import parse_id
from registry.admin.access import OperatorsOnly, as_text
from routing.models import Idempotency, Leader, Task, Worker
from routing.states import TaskState

SHOWN = 500  # tasks of one correlation id or trace id
STATE_COLOURS = {
    TaskState.SUCCEEDED: "success",
    TaskState.FAILED: "danger",
    TaskState.TIMEOUT: "danger",
    TaskState.CANCELLED: "warning",
    TaskState.RETRY_WAIT: "warning",
}


class Watched(OperatorsOnly):
    """Rows that only programs write: newest first, and never counted."""

    paginator = InfinitePaginator

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [field.name for field in self.model._meta.fields]


@admin.register(Task)
class TaskAdmin(Watched):
    """Tasks by their exact id, correlation id or trace id; the journey is in the console."""

    list_display = ("id", "namespace", "client", "ability", "shown_state", "attempts", "agent_id", "created_at")
    ordering = ("-id",)
    search_fields = ("id",)
    search_help_text = _("exact task id, correlation id or trace id")
    exclude = ("timings", "progress", "error_details", "call_path", "worker")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return ["journey", *super().get_readonly_fields(request, obj), "measured"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Task], search_term: str
    ) -> tuple[QuerySet[Task], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        known = parse_id(term)
        if known:
            return queryset.filter(id=known), False
        # Each by its own index: one condition over both would read the whole table.
        by_correlation = Idempotency.objects.filter(correlation_id=term).values_list("task_id", flat=True)[:SHOWN]
        by_trace = Task.objects.filter(trace_id=term).order_by().values_list("id", flat=True)[:SHOWN]
        return queryset.filter(id__in=[*by_correlation, *by_trace]), False

    @display(description=_("state"), label=STATE_COLOURS)
    def shown_state(self, task: Task) -> tuple[str, str]:
        return task.state, task.get_state_display()

    @display(description=_("journey"))
    def journey(self, task: Task) -> SafeString:
        return format_html('<a href="/console/tasks/{}/">{}</a>', task.id, _("open in the console"))

    @display(description=_("timings"))
    def measured(self, task: Task) -> SafeString:
        return as_text({"timings": task.timings, "progress": task.progress, "details": task.error_details})


@admin.register(Worker)
class WorkerAdmin(Watched):
    list_display = ("node", "started_at", "expires_at", "progress_at", "inflight")
    ordering = ("-started_at",)


@admin.register(Leader)
class LeaderAdmin(Watched):
    list_display = ("duty", "holder", "epoch", "expires_at")
    ordering = ("duty",)

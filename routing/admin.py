"""The admin of routing: routes are edited here, tasks and processes only looked at. Operators only."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import TabularInline
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from common.clock import now
from common.errors import Invalid
from common.ids import parse_id
from registry.admin.access import OperatorsOnly, as_text, author_of, reach_of
from routing import route_tables
from routing.models import Candidate, Idempotency, Leader, Route, Task, Worker
from routing.services import routes
from routing.states import TaskState

STATE_COLOURS = {
    TaskState.SUCCEEDED: "success",
    TaskState.FAILED: "danger",
    TaskState.TIMEOUT: "danger",
    TaskState.CANCELLED: "warning",
    TaskState.RETRY_WAIT: "warning",
}


class CandidateFormSet(BaseInlineFormSet):
    """The candidates, checked together with their route as a table by API would be."""

    def clean(self) -> None:
        super().clean()
        if any(self.errors) or not isinstance(self.instance.settings, dict):
            return
        try:
            self.instance.as_written = route_tables.read({"routes": [self._route()]})[1][0]
        except Invalid as error:
            told = [f"{e['pointer'].removeprefix('/routes/0')}: {e['message']}" for e in error.errors]
            raise ValidationError(told) from None

    def _route(self) -> dict[str, Any]:
        filled = [form for form in self.forms if form.has_changed() or form.instance.pk]
        kept = [form.instance for form in filled if not form.cleaned_data.get("DELETE")]
        candidates = [route_tables.written_candidate(row) for row in sorted(kept, key=lambda row: row.position)]
        head = {"ability": self.instance.ability, "strategy": self.instance.strategy, "candidates": candidates}
        return {**self.instance.settings, **head}


class CandidateInline(TabularInline):
    model = Candidate
    formset = CandidateFormSet
    fields = ("position", "agent_id", "capability", "version", "weight")
    extra = 0

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return reach_of(request).everything

    has_change_permission = has_delete_permission = has_view_permission = has_add_permission


@admin.register(Route)
class RouteAdmin(OperatorsOnly):
    """Who serves an ability and how; saved by the same service as `PUT /v1/routes`."""

    can_add = can_change = True
    list_display = ("ability", "namespace_id", "strategy", "served_by", "updated_at", "updated_by")
    list_filter = ("strategy",)
    search_fields = ("ability", "namespace__name", "candidates__agent_id")
    ordering = ("ability",)
    fields = ("namespace", "ability", "strategy", "settings")
    inlines = (CandidateInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Route]:
        rows: QuerySet[Route] = super().get_queryset(request)
        return rows.prefetch_related("candidates")

    def get_readonly_fields(self, request: HttpRequest, obj: Route | None = None) -> tuple[str, ...]:
        return ("namespace", "ability") if obj else ()

    @display(description=_("candidates"))
    def served_by(self, route: Route) -> str:
        return ", ".join(str(one) for one in route.candidates.all())

    def save_model(self, request: HttpRequest, obj: Route, form: Any, change: bool) -> None:
        """Nothing yet: a route and its candidates are written together."""

    def save_related(self, request: HttpRequest, form: Any, formsets: list[Any], change: bool) -> None:
        for formset in formsets:
            formset.save(commit=False)  # what the page's own history needs to know
        route = form.instance
        routes.put(route.namespace_id, [route.as_written], now=now(), **author_of(request))
        route.pk = Route.objects.get(namespace=route.namespace_id, ability=route.ability).pk


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
        by_correlation = Idempotency.objects.filter(correlation_id=term).values("task_id")
        return queryset.filter(Q(id__in=by_correlation) | Q(trace_id=term)), False

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

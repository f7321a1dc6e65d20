"""Routes: operators edit them, and owners move the traffic between their team's agents."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model, Prefetch, QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import TabularInline
from unfold.decorators import action, display

from common.clock import now
from common.errors import Invalid
from registry.admin.access import OperatorsOnly, author_of, reach_of
from registry.admin.past import logged_as
from registry.admin.seen import SEEN, SeenForm
from routing import route_tables
from routing.admin import traffic
from routing.admin.mine import candidates_of, routes_of
from routing.models import Candidate, Route
from routing.services import routes
from routing.services.traffic import since

logged_as.register(Route, lambda row: (row.namespace_id, f"route:{row.ability}"))


class RouteForm(SeenForm):
    """A route as it was when its form was opened: nobody saves over what somebody else has changed since."""

    def seen_of(self, row: Route) -> str:
        return str(row.revision)

    def edits_since(self, row: Route, seen: str) -> Any:
        return since(row, int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else 0)


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
    """Who serves an ability and how; saved by the same service as `PUT /v1/routes`. Owners find the routes to their
    team's agents, and are led to their traffic."""

    can_add = can_change = True
    help = (
        _("A route leads an ability to agents. Weights are shares of its traffic; candidates without a weight are one "
          "pool, in which the strategy chooses."),
        _("Traffic and canary shows where the calls go and moves them in steps, with one click back."),
    )  # fmt: skip
    guides = ("owners", "choosing")
    form = RouteForm
    list_display = ("ability", "namespace_name", "strategy", "served_by", "traffic_link", "updated_at", "updated_by")
    list_filter = ("strategy",)
    search_fields = ("ability", "namespace__name")
    ordering = ("ability",)
    fields = ("namespace", "ability", "strategy", "settings")
    change_form_before_template = SEEN
    inlines = (CandidateInline,)
    actions_detail = ("traffic",)

    def has_module_permission(self, request: HttpRequest) -> bool:
        reach = reach_of(request)
        return reach.everything or bool(reach.team)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        if obj is None or reach_of(request).everything:
            return self.has_module_permission(request)
        return Route.objects.filter(routes_of(reach_of(request)), pk=obj.pk).exists()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Route]:
        """One's own routes, each with the candidates that are one's own."""
        reach = reach_of(request)
        rows: QuerySet[Route] = super().get_queryset(request).filter(routes_of(reach))
        return rows.prefetch_related(Prefetch("candidates", candidates_of(reach)))

    def get_readonly_fields(self, request: HttpRequest, obj: Route | None = None) -> tuple[str, ...]:
        return ("namespace", "ability") if obj else ()

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        agents = ("candidates__agent_id",) if reach_of(request).everything else ()  # whose else serves it is not told
        return (*self.search_fields, *agents)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The form is the operators'; owners have the traffic page."""
        if object_id and not reach_of(request).everything:
            return redirect(reverse("admin:routing_route_traffic", args=[object_id]))
        answer: HttpResponse = super().changeform_view(request, object_id, form_url, extra_context)
        return answer

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The operators', as it names every candidate that ever was."""
        if not reach_of(request).everything:
            return redirect(reverse("admin:routing_route_traffic", args=[object_id]))
        return super().history_view(request, object_id, extra_context)

    @action(description=_("Traffic and canary"), url_path="traffic")
    def traffic(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return traffic.page(self, request, object_id)

    @display(description=_("candidates"))
    def served_by(self, route: Route) -> str:
        return ", ".join(str(one) for one in route.candidates.all())

    @display(description=_("traffic"))
    def traffic_link(self, route: Route) -> SafeString:
        return format_html(
            '<a class="text-primary-600 underline dark:text-primary-500" href="{}">{}</a>',
            reverse("admin:routing_route_traffic", args=[route.pk]),
            _("traffic and canary"),
        )

    def save_model(self, request: HttpRequest, obj: Route, form: Any, change: bool) -> None:
        """Nothing yet: a route and its candidates are written together."""

    def save_related(self, request: HttpRequest, form: Any, formsets: list[Any], change: bool) -> None:
        for formset in formsets:
            formset.save(commit=False)  # what the page's own history needs to know
        route = form.instance
        routes.put(route.namespace_id, [route.as_written], now=now(), **author_of(request))
        route.pk = Route.objects.get(namespace=route.namespace_id, ability=route.ability).pk

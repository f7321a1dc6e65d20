"""Who may see what in the admin, and what its pages share."""

import json
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from registry.admin.past import WithPast
from registry.models import Membership
from registry.services.audit import Origin


@dataclass(frozen=True)
class Reach:
    """How far a person's view goes: everywhere, or to a team's agents in some namespaces."""

    everything: bool
    team: str = ""
    namespaces: tuple[str, ...] = ()

    def agents(self, path: str = "") -> Q:
        """The condition for rows whose agent is found by `path` (like "agent__")."""
        if self.everything:
            return Q()
        if not self.team:
            return Q(pk__in=[])
        mine = Q(**{f"{path}owner": self.team, f"{path}deleted_at": None})
        return mine if "*" in self.namespaces else mine & Q(**{f"{path}namespace__in": self.namespaces})


def reach_of(request: HttpRequest) -> Reach:
    """What the person who is logged in may see; read once for each request."""
    known: Reach | None = getattr(request, "reach", None)
    if known is None:
        known = _reach(request.user)
        request.reach = known  # type: ignore[attr-defined]
    return known


def _reach(user: Any) -> Reach:
    if not (user.is_active and user.is_staff):
        return Reach(everything=False)
    if user.is_superuser:
        return Reach(everything=True)
    membership = Membership.objects.filter(user_id=user.pk).first()
    if membership is None or membership.role != Membership.Role.OWNER:
        return Reach(everything=membership is not None and membership.role == Membership.Role.OPERATOR)
    return Reach(everything=False, team=membership.team, namespaces=tuple(membership.namespaces))


def author_of(request: HttpRequest) -> Origin:
    """`actor` and `ip` for a service."""
    return {"actor": f"user:{request.user.get_username()}", "ip": request.META.get("REMOTE_ADDR", "")}


def as_text(value: Any) -> SafeString:
    """Text as it is, or JSON, indented; nothing in it can become markup, and long words break."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return format_html('<pre style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>', text)


class OperatorsOnly(WithPast):
    """Pages that only operators see. Rows are never deleted here."""

    show_full_result_count = False
    list_per_page = 50
    list_after_template = "admin/help_below_list.html"
    change_form_outer_after_template = "admin/help_below_form.html"
    help: tuple[Any, ...] = ()  # sentences below the list and the form
    guides: tuple[str, ...] = ()  # of docs/, linked below them
    can_add = False
    can_change = False

    @admin.display(description=_("namespace"), ordering="namespace")
    def namespace_name(self, row: Any) -> str:
        """The namespace of a row, without a look at its table."""
        return row.namespace_id or ""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return reach_of(request).everything

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return reach_of(request).everything

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.can_add and reach_of(request).everything

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.can_change and reach_of(request).everything

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class TeamsOwn(OperatorsOnly):
    """Pages that owners see too, with their team's rows; `agent_path` leads from a row to its agent."""

    agent_path = ""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.filter(reach_of(request).agents(self.agent_path))

    def has_module_permission(self, request: HttpRequest) -> bool:
        reach = reach_of(request)
        return reach.everything or bool(reach.team)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_module_permission(request) and self._is_mine(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_change and self.has_view_permission(request, obj)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page without "save": there is nothing to save, only buttons that do something."""
        buttons = {"show_save": False, "show_save_and_continue": False}
        answer: HttpResponse = super().changeform_view(
            request, object_id, form_url, {**(extra_context or {}), **buttons}
        )
        return answer

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write nothing, as these rows change by what agents say; run the button that was pressed."""
        for button in self.get_actions_submit_line(request, obj.pk):
            if button.action_name in request.POST:
                button.method(request, obj)

    def _is_mine(self, request: HttpRequest, obj: Any) -> bool:
        return obj is None or self.model._default_manager.filter(
            reach_of(request).agents(self.agent_path), pk=obj.pk
        ).exists()  # fmt: skip


__all__ = ["OperatorsOnly", "Reach", "TeamsOwn", "as_text", "author_of", "reach_of"]

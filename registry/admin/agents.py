"""Agents, their revisions, instances and state changes."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.admin import TabularInline
from unfold.decorators import action, display

from common.clock import now
from registry.admin.access import TeamsOwn, as_text, author_of, reach_of
from registry.models import Agent, Instance, Revision, StateChange
from registry.reasons import in_words
from registry.services import instances, manifests, scoring
from registry.states import ROUTABLE, InstanceState

STATE_COLOURS = {
    InstanceState.NEW: "info",
    InstanceState.ONLINE: "success",
    InstanceState.DEGRADED: "warning",
    InstanceState.OFFLINE: "danger",
}


def misfits_of(agent: Agent, rows: Iterable[Instance]) -> str:
    """How many of the newest answers of these instances do not fit the declared output schema."""
    drifts = [one.drift for one in scoring.shown(agent, rows, now()).values()]
    counts = {"misfits": sum(one.misfits for one in drifts), "answers": sum(one.answers for one in drifts)}
    return gettext("%(misfits)s of the last %(answers)s") % counts


class ReadOnlyInline(TabularInline):
    """Rows below an agent or instance: shown, linked, ten at a time."""

    extra = 0
    per_page = 10
    show_change_link = True
    can_delete = False
    hide_title = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # the page around it has decided


class WithReason:
    """Shows the reason of a move in the page's language."""

    @admin.display(description=_("reason"), ordering="reason")
    def why(self, row: Instance | StateChange) -> str:
        return in_words(row.reason)


class InstanceInline(WithReason, ReadOnlyInline):
    model = Instance
    fields = readonly_fields = ("instance_id", "state", "state_since", "why", "region", "weight", "draining")
    ordering = ("instance_id",)


class RevisionInline(ReadOnlyInline):
    model = Revision
    fields = readonly_fields = ("number", "created_at", "created_by")


class StateChangeInline(WithReason, ReadOnlyInline):
    model = StateChange
    show_change_link = False
    fields = readonly_fields = ("at", "from_state", "to_state", "why")


@admin.register(Agent)
class AgentAdmin(TeamsOwn):
    """An owner's agents: how they are, what they declare, and maintenance."""

    can_change = True
    list_before_template = "admin/registry/agent/first.html"
    help = (
        _("An agent comes from its manifest, which is sent by API; each one that differs is a revision, and any of "
          "them can be compared and brought back."),
        _("Maintenance drains an agent: running tasks finish, new ones go elsewhere until it is ended by hand."),
    )  # fmt: skip
    guides = ("owners", "agents", "health")
    list_display = ("agent_id", "namespace_name", "owner", "version", "taking_work", "maintenance", "updated_at")
    list_filter = ("maintenance", "external")
    search_fields = ("agent_id", "display_name", "owner", "namespace__name")
    ordering = ("agent_id",)
    actions = ("begin_maintenance", "end_maintenance")
    actions_submit_line = ("begin_maintenance_here", "end_maintenance_here")
    actions_detail = ("try_mapping",)
    inlines = (InstanceInline, RevisionInline)
    fields = readonly_fields = (
        "namespace", "agent_id", "display_name", "owner", "tags", "version", "revision", "external", "maintenance",
        "warning_list", "misfits", "manifest_text", "created_at", "updated_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
        routable = Count("instances", filter=Q(instances__left_at=None, instances__state__in=ROUTABLE))
        rows: QuerySet[Agent] = super().get_queryset(request).filter(deleted_at=None)
        return rows.annotate(routable=routable)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list; who has no agent yet is told how to come to one."""
        reach = reach_of(request)
        first = bool(reach.team) and not Agent.objects.filter(reach.agents()).exists()
        known = {"first": first, "team": reach.team, "host": request.build_absolute_uri("/").rstrip("/")}
        answer: HttpResponse = super().changelist_view(request, {**(extra_context or {}), "owners": known})
        return answer

    @admin.display(description=_("instances that take work"))
    def taking_work(self, agent: Any) -> int:
        return int(agent.routable)

    @admin.display(description=_("warnings"))
    def warning_list(self, agent: Agent) -> SafeString | str:
        rows = ((w["pointer"], w["message"]) for w in agent.warnings)
        found = format_html_join("", "<li><code>{}</code> {}</li>", rows)
        return format_html("<ul>{}</ul>", found) if found else gettext("none")

    @admin.display(description=_("answers that do not fit the output schema"))
    def misfits(self, agent: Agent) -> str:
        return misfits_of(agent, agent.instances.filter(left_at=None))

    @admin.display(description=_("manifest"))
    def manifest_text(self, agent: Agent) -> SafeString:
        return as_text(agent.manifest)

    @admin.action(description=_("Begin maintenance"), permissions=["change"])
    def begin_maintenance(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        self._maintain(request, queryset, on=True)

    @admin.action(description=_("End maintenance"), permissions=["change"])
    def end_maintenance(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        self._maintain(request, queryset, on=False)

    @action(description=_("Try its mapping"), url_path="try-mapping")
    def try_mapping(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(reverse("agent-mapping", args=[object_id]))

    @action(description=_("Begin maintenance"))
    def begin_maintenance_here(self, request: HttpRequest, obj: Agent) -> None:
        self._maintain(request, self.get_queryset(request).filter(pk=obj.pk), on=True)

    @action(description=_("End maintenance"))
    def end_maintenance_here(self, request: HttpRequest, obj: Agent) -> None:
        self._maintain(request, self.get_queryset(request).filter(pk=obj.pk), on=False)

    def _maintain(self, request: HttpRequest, queryset: QuerySet[Agent], *, on: bool) -> None:
        for agent in queryset:
            manifests.maintenance(agent.namespace_id, agent.agent_id, on, now=now(), **author_of(request))
        text = gettext("Maintenance has begun: running tasks finish, no new ones come.") if on else gettext(
            "Maintenance has ended."
        )  # fmt: skip
        messages.success(request, text)


@admin.register(Instance)
class InstanceAdmin(WithReason, TeamsOwn):
    """Running copies: their state, why, and since when."""

    agent_path = "agent__"
    can_change = True
    help = (
        _("NEW gets a small share until it has proven itself, DEGRADED a reduced one, OFFLINE nothing; the reason says "
          "what made it so."),
        _("Taking an instance out is for good: it comes back only when it registers again. To pause, use maintenance."),
    )  # fmt: skip
    guides = ("owners", "health")
    list_display = ("instance_id", "agent", "shown_state", "state_since", "why", "region", "weight", "last_heard_at")
    list_select_related = ("agent",)
    list_filter = ("state", "draining")
    search_fields = ("instance_id", "agent__agent_id")
    ordering = ("agent", "instance_id")
    actions = ("take_out",)
    inlines = (StateChangeInline,)
    fields = readonly_fields = (
        "agent", "instance_id", "implicit", "state", "state_since", "why", "misfits", "draining", "invoke_url",
        "health_url",
        "lookup_url", "networks", "region", "zone", "version", "labels", "cost", "weight", "weight_percent",
        "max_concurrency", "prefer_channel", "heartbeat", "registered_at", "last_heard_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Instance]:
        return super().get_queryset(request).filter(left_at=None)

    @display(description=_("state"), label=STATE_COLOURS, ordering="state")
    def shown_state(self, instance: Instance) -> tuple[str, Any]:
        return instance.state, instance.get_state_display()

    @admin.display(description=_("answers that do not fit the output schema"))
    def misfits(self, instance: Instance) -> str:
        return misfits_of(instance.agent, [instance])

    @admin.action(description=_("Take out at once"), permissions=["change"])
    def take_out(self, request: HttpRequest, queryset: QuerySet[Instance]) -> None:
        for one in queryset.select_related("agent"):
            agent = one.agent
            instances.leave(agent.namespace_id, agent.agent_id, one.instance_id, now=now(), **author_of(request))
        messages.success(request, gettext("They get no further traffic; running tasks may finish."))

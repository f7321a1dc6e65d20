"""Hooks: owners make them for their team's agents, operators for whole namespaces too."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from common.clock import now
from common.errors import ReachError
from registry.admin.access import TeamsOwn, author_of, reach_of
from registry.admin.agents import ReadOnlyInline
from registry.hooks.messages import ALERT, RESOURCE, STATE
from registry.models import Agent, Hook, HookFiring
from registry.services import hooks
from registry.services.hooks import Issued

EVENT_NAMES = {
    STATE: _("an instance changes its state"),
    RESOURCE: _("a resource crosses its threshold"),
    ALERT: _("an alert"),
}


class HookForm(forms.ModelForm):
    """A new hook, checked by the same rules as the API's."""

    events = forms.MultipleChoiceField(
        label=_("events"),
        choices=list(EVENT_NAMES.items()),
        initial=[STATE],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )
    command = forms.ChoiceField(label=_("command"), required=False, widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        names = sorted(settings.REACH_HOOK_COMMANDS)
        if isinstance(command := self.fields.get("command"), forms.ChoiceField):
            command.choices = [("", "—"), *((name, name) for name in names)]
        if "namespace" in self.fields:
            self.fields["namespace"].required = False
        elif "agent" in self.fields:
            self.fields["agent"].required = True

    def clean(self) -> dict[str, Any]:
        found = super().clean() or self.cleaned_data
        agent, namespace = found.get("agent"), found.get("namespace")
        if not self.errors and not agent and not namespace:
            self.add_error("agent", _("Choose an agent or a namespace."))
        if agent and namespace and agent.namespace_id != namespace.pk:
            self.add_error("namespace", _("That agent is in another namespace."))
        for error in hooks.problems(found.get("url", ""), found.get("command", "")):
            self.add_error(error["pointer"].removeprefix("/"), error["message"])
        return found


class FiringInline(ReadOnlyInline):
    model = HookFiring
    show_change_link = False
    fields = readonly_fields = ("event", "state", "created_at", "attempts", "due_at", "last_error")


@admin.register(Hook)
class HookAdmin(TeamsOwn):
    """Whom to tell of changes, how that goes, a test, a new secret."""

    agent_path = "agent__"
    help = (
        _("A hook is told once of each change, signed and with retries; its secret is shown only when it is made or "
          "rotated."),
    )  # fmt: skip
    guides = ("owners", "hooks")
    can_change = True
    form = HookForm
    list_display = ("target", "agent", "namespace_name", "event_list", "how", "created_at")
    list_display_links = ("target",)
    list_select_related = ("agent",)
    search_fields = ("agent__agent_id", "command", "=namespace__name")
    ordering = ("-id",)
    autocomplete_fields = ("agent", "namespace")
    actions = ("remove",)
    actions_submit_line = ("send_test", "rotate")
    readonly_fields = (
        "agent_name", "namespace_name", "event_list", "url", "command", "how", "failing_since", "last_error",
        "stopped_at", "created_at", "created_by",
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_module_permission(request)

    def get_form(self, request: HttpRequest, obj: Hook | None = None, change: bool = False, **kwargs: Any) -> Any:
        of = {} if obj is None else {"form": forms.ModelForm}  # what is there has no fields to fill in
        return super().get_form(request, obj, change, **of, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Hook | None = None) -> tuple[str, ...]:
        if obj is not None:
            return self.readonly_fields
        of = ("agent", "namespace") if reach_of(request).everything else ("agent",)
        return (*of, "events", "url", "command")

    def get_readonly_fields(self, request: HttpRequest, obj: Hook | None = None) -> tuple[str, ...]:
        return self.readonly_fields if obj is not None else ()

    def get_inlines(self, request: HttpRequest, obj: Hook | None) -> list[Any]:
        return [FiringInline] if obj is not None else []

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "agent":
            kwargs["queryset"] = Agent.objects.filter(reach_of(request).agents(), deleted_at=None)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """A new hook is saved; one that is there only has buttons."""
        if object_id:
            return super().changeform_view(request, object_id, form_url, extra_context)
        answer: HttpResponse = super(TeamsOwn, self).changeform_view(request, object_id, form_url, extra_context)
        return answer

    def save_model(self, request: HttpRequest, obj: Hook, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        given, agent = form.cleaned_data, form.cleaned_data.get("agent")
        made = hooks.create(
            agent.namespace_id if agent else given["namespace"].pk,
            events=given["events"],
            agent_id=agent.agent_id if agent else None,
            url=given["url"],
            command=given["command"],
            now=now(),
            **author_of(request),
        )
        obj.pk, obj.namespace = made.hook.pk, made.hook.namespace
        obj._state.adding = False
        _show_once(request, made)

    @admin.display(description=_("whom it tells"))
    def target(self, hook: Hook) -> str:
        return hook.url or hook.command

    @admin.display(description=_("agent"))
    def agent_name(self, hook: Hook) -> str:
        return hook.agent.agent_id if hook.agent else gettext("every agent of the namespace")

    @admin.display(description=_("events"))
    def event_list(self, hook: Hook) -> str:
        return ", ".join(str(EVENT_NAMES.get(event, event)) for event in hook.events)

    @display(description=_("how it goes"), label={"well": "success", "failing": "warning", "stopped": "danger"})
    def how(self, hook: Hook) -> tuple[str, str]:
        if hook.stopped_at:
            return "stopped", gettext("stopped, as the receiver answered 410")
        return ("failing", gettext("failing")) if hook.failing_since else ("well", gettext("well"))

    @action(description=_("Send a test"))
    def send_test(self, request: HttpRequest, obj: Hook) -> None:
        hooks.send_test(obj.namespace_id, obj.pk, now=now(), **author_of(request))
        messages.success(request, gettext("A test is on its way; reload this page to see how it went."))

    @action(description=_("Give it a new secret (the old one stays good for a day)"))
    def rotate(self, request: HttpRequest, obj: Hook) -> None:
        try:
            _show_once(request, hooks.rotate(obj.namespace_id, obj.pk, now=now(), **author_of(request)))
        except ReachError as error:
            messages.error(request, "; ".join(one["message"] for one in error.errors) or error.detail)

    @admin.action(description=_("Remove"), permissions=["change"])
    def remove(self, request: HttpRequest, queryset: QuerySet[Hook]) -> None:
        for hook in queryset:
            hooks.remove(hook.namespace_id, hook.pk, now=now(), **author_of(request))
        messages.success(request, gettext("They tell nothing any more."))


def _show_once(request: HttpRequest, made: Issued) -> None:
    """The secret of a hook, for the one page that shows it."""
    if made.secret:
        intro = gettext("Copy the secret that this hook signs with now; it is not shown again:")
        messages.warning(request, format_html("{} <code>{}</code>", intro, made.secret))

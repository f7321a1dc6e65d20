"""Namespaces, clients, credentials and the audit log: operators' pages."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.paginator import InfinitePaginator
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from common.clock import now
from registry import bodies
from registry.admin.access import OperatorsOnly, as_text, author_of
from registry.admin.seen import SEEN, SeenForm
from registry.models import Audit, Client, Credential, Namespace
from registry.principal import CLIENT_SCOPES
from registry.services import clients, credentials, namespaces
from registry.services.clients import DEFAULT_SCOPES, NewClient


class NamespaceForm(forms.ModelForm):
    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        errors = bodies.namespace.errors({"name": name})
        if errors:
            raise ValidationError(_("Use 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends."))
        return name


@admin.register(Namespace)
class NamespaceAdmin(OperatorsOnly):
    can_add = True
    form = NamespaceForm
    list_display = ("name", "created_at")
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name",)

    def save_model(self, request: HttpRequest, obj: Namespace, form: Any, change: bool) -> None:
        namespaces.create(obj.name, now=now(), **author_of(request))


class ClientForm(SeenForm):
    """A client's fields, checked by the same rules as the API's."""

    scopes = forms.MultipleChoiceField(
        label=_("scopes"),
        choices=[(scope, scope) for scope in CLIENT_SCOPES],
        initial=DEFAULT_SCOPES,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
    )

    def clean(self) -> dict[str, Any]:
        found = super().clean() or self.cleaned_data
        given = {"name": found.get("name", self.instance.name), "abilities": found.get("abilities")}
        body = {**given, "limits": found.get("limits") or {}}
        names = {"abilities": "abilities", "limits": "limits", "name": "name"}
        for error in bodies.client.errors(body):
            field = names.get(error["pointer"].split("/")[1]) if error["pointer"] else None
            self.add_error(field if field in self.fields else None, f"{error['pointer']}: {error['message']}")
        return found


@admin.register(Client)
class ClientAdmin(OperatorsOnly):
    can_add = can_change = True
    form = ClientForm
    change_form_before_template = SEEN
    list_display = ("name", "namespace_name", "abilities", "callback_schedule", "enabled", "created_at")
    list_filter = ("enabled", "callback_schedule")
    search_fields = ("name", "namespace__name")
    ordering = ("namespace", "name")
    autocomplete_fields = ("namespace",)
    actions = ("rotate",)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"abilities": ["*"], **super().get_changeform_initial_data(request)}

    def get_fields(self, request: HttpRequest, obj: Client | None = None) -> tuple[str, ...]:
        common = ("namespace", "name", "abilities", "limits", "callback_schedule")
        return (*common, "enabled") if obj else (*common, "scopes")

    def get_readonly_fields(self, request: HttpRequest, obj: Client | None = None) -> tuple[str, ...]:
        return ("namespace", "name") if obj else ()

    def save_model(self, request: HttpRequest, obj: Client, form: Any, change: bool) -> None:
        if change:
            fields = {name: form.cleaned_data[name] for name in clients.CHANGEABLE if name in form.changed_data}
            if fields:
                clients.change(obj.namespace_id, obj.name, now=now(), **author_of(request), **fields)
            return
        made = clients.create(
            obj.namespace_id,
            obj.name,
            scopes=form.cleaned_data["scopes"],
            abilities=obj.abilities,
            limits=obj.limits,
            callback_schedule=obj.callback_schedule,
            now=now(),
            **author_of(request),
        )
        obj.pk = made.client.pk
        obj._state.adding = False
        messages.warning(request, shown_once(made))

    @admin.action(description=_("Rotate the key (the old one stays good for a day)"), permissions=["change"])
    def rotate(self, request: HttpRequest, queryset: QuerySet[Client]) -> None:
        for client in queryset:
            made = clients.rotate(client.namespace_id, client.name, now=now(), **author_of(request))
            messages.warning(request, shown_once(made))


def shown_once(made: NewClient) -> SafeString:
    """The credentials of a client, for the one page that shows them."""
    rows = [*made.issued.document().items(), ("callbackSecret", made.callback_secret)]
    intro = gettext("Copy the credentials of %(name)s now; they are not shown again.") % {"name": made.client.name}
    return format_html("{}<br>{}", intro, format_html_join("", "{}: <code>{}</code><br>", rows))


@admin.register(Credential)
class CredentialAdmin(OperatorsOnly):
    """Which keys there are; what they are is nowhere to be seen."""

    list_display = (
        "kind",
        "namespace_name",
        "client",
        "agent_id",
        "key_hint",
        "created_at",
        "expires_at",
        "revoked_at",
    )
    list_select_related = ("client",)
    list_filter = ("kind",)
    search_fields = ("agent_id", "client__name", "access_key")
    ordering = ("-id",)
    paginator = InfinitePaginator
    actions = ("revoke",)
    fields = ("kind", "namespace", "client", "agent_id", "key_hint", "access_key", "scopes", "created_at", "expires_at",
              "revoked_at")  # fmt: skip

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @admin.action(description=_("Revoke at once"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Credential]) -> None:
        for row in queryset:
            credentials.revoke(row.pk, now=now(), **author_of(request))
        messages.success(request, gettext("They are refused from now on."))


@admin.register(Audit)
class AuditAdmin(OperatorsOnly):
    """Read only: who changed what, when, from where."""

    list_display = ("at", "actor", "ip", "namespace", "action", "object")
    search_fields = ("=actor", "=object", "=action", "=namespace")
    ordering = ("-id",)
    paginator = InfinitePaginator
    fields = readonly_fields = ("at", "actor", "ip", "namespace", "action", "object", "before_text", "after_text")

    @admin.display(description=_("before"))
    def before_text(self, entry: Audit) -> SafeString:
        return as_text(entry.before)

    @admin.display(description=_("after"))
    def after_text(self, entry: Audit) -> SafeString:
        return as_text(entry.after)

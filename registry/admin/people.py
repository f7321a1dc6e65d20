"""People who log in, and what they may see: an operators' page."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import Group, User
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse_lazy
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminOwnPasswordChangeForm
from unfold.widgets import UnfoldAdminTextInputWidget

from common.clock import now
from registry import bodies
from registry.admin.access import OperatorsOnly, author_of
from registry.admin.seen import SEEN, SeenForm
from registry.models import Membership
from registry.services import users

# Accounts are made with their role, here and by API, so that nobody logs in without one.
admin.site.unregister(User)
admin.site.unregister(Group)


class MembershipForm(SeenForm):
    name = forms.CharField(label=_("user"), max_length=150, widget=UnfoldAdminTextInputWidget)

    class Meta:
        model = Membership
        fields = ("role", "team", "namespaces")

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["name"].initial = self.instance.user.get_username()
            self.fields["name"].disabled = True

    def clean(self) -> dict[str, Any]:
        found = super().clean() or self.cleaned_data
        given = {"user": found.get("name"), "role": found.get("role"), "team": found.get("team", "")}
        for error in bodies.user.errors({**given, "namespaces": found.get("namespaces")}):
            raise ValidationError(f"{error['pointer']}: {error['message']}")
        return found


@admin.register(Membership)
class MembershipAdmin(OperatorsOnly):
    can_add = can_change = True
    form = MembershipForm
    change_form_before_template = SEEN
    list_display = ("user", "role", "team", "namespaces")
    list_select_related = ("user",)
    list_filter = ("role",)
    search_fields = ("user__username", "team")
    ordering = ("user__username",)
    fields = ("name", "role", "team", "namespaces")

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        given = form.cleaned_data
        member = users.put(
            given["name"],
            role=given["role"],
            team=given["team"],
            namespaces=given["namespaces"],
            now=now(),
            **author_of(request),
        )
        saved = Membership.objects.get(user__username=member.user)
        obj.pk, obj.user = saved.pk, saved.user
        obj._state.adding = False
        if member.password:
            text = gettext("Copy the password of %(name)s now; it is not shown again:") % {"name": member.user}
            messages.warning(request, format_html("{} <code>{}</code>", text, member.password))


class OwnPassword(PasswordChangeView):
    """The page on which a person changes the own password, by the service that records it."""

    form_class = AdminOwnPasswordChangeForm
    template_name = "registration/password_change_form.html"
    success_url = reverse_lazy("admin:password_change_done")

    def form_valid(self, form: Any) -> HttpResponse:
        users.set_own_password(form.user, form.cleaned_data["new_password1"], now=now(), **author_of(self.request))
        update_session_auth_hash(self.request, form.user)
        return redirect(self.get_success_url())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), **admin.site.each_context(self.request)}

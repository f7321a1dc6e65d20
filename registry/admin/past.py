"""The history page of a thing: what the audit log says about it, whether it was done here, by API or from the shell."""

import datetime as dt
from functools import singledispatch
from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from unfold.admin import ModelAdmin

from common.clock import now
from registry import history
from registry.models import Agent, Client, Credential, Hook, Instance, Membership, Namespace, Revision

LOOKED_BACK = dt.timedelta(days=90)
SHOWN = 50


@singledispatch
def logged_as(row: Any) -> tuple[str, str] | None:
    """(namespace, object) of a row in the audit log; None for what is never changed by anybody."""
    return None


logged_as.register(Namespace, lambda row: (row.pk, f"namespace:{row.pk}"))
logged_as.register(Client, lambda row: (row.namespace_id, f"client:{row.name}"))
logged_as.register(Credential, lambda row: (row.namespace_id or "", f"credential:{row.access_key}"))
logged_as.register(Agent, lambda row: (row.namespace_id, f"agent:{row.agent_id}"))
logged_as.register(Revision, lambda row: logged_as(row.agent))
logged_as.register(Instance, lambda row: (row.agent.namespace_id, f"instance:{row.agent.agent_id}/{row.instance_id}"))
logged_as.register(Hook, lambda row: (row.namespace_id, f"hook:{row.pk}"))
logged_as.register(Membership, lambda row: ("", f"user:{row.user.get_username()}"))


class WithPast(ModelAdmin):
    """Its history pages are the audit log's."""

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            answer: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
            return answer
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        name, since = logged_as(row), now() - LOOKED_BACK
        context = {
            **self.admin_site.each_context(request),
            "title": _("Change history: %s") % row,
            "opts": self.opts,
            "object": row,
            "edits": history.edits(*name, since=since, most=SHOWN) if name else [],
            "shown": SHOWN,
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/past.html", context)


__all__ = ["WithPast", "logged_as"]

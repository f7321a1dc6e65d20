"""Manifest revisions: what each said, how any two differ, and the way back, which asks first."""

from datetime import UTC
from typing import Any

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.paginator import InfinitePaginator

from common.clock import now
from common.errors import ReachError, StateConflict
from registry.admin.access import TeamsOwn, as_text, author_of
from registry.differences import changed, lines, text_diff
from registry.models import Agent, Capability, Revision
from registry.services import manifests

OFFERED = 200  # revisions to compare with, the newest


@admin.register(Revision)
class RevisionAdmin(TeamsOwn):
    """One revision: what it said, what differs from another one, and what going back to it would do."""

    agent_path = "agent__"
    help = (_("Open a revision to compare it with another one, or to make its content the newest again."),)
    guides = ("owners", "agents")
    can_change = True
    list_display = ("agent", "number", "created_at", "created_by")
    list_select_related = ("agent",)
    search_fields = ("agent__agent_id",)
    ordering = ("-id",)
    paginator = InfinitePaginator
    actions_detail = ("compare",)
    fields = readonly_fields = ("agent", "number", "created_at", "created_by", "source_text")

    @admin.display(description=_("as sent"))
    def source_text(self, revision: Revision) -> SafeString:
        return as_text(revision.source)

    @action(description=_("Compare, or go back to it"), url_path="compare")
    def compare(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """How it differs from another revision (`to`, by default the current one); POST goes back to it."""
        revision = self._mine(request, object_id)
        if request.method == "POST":
            return self._restore(request, revision)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": gettext("Revision %(number)s of %(agent)s")
            % {"number": revision.number, "agent": revision.agent.agent_id},
            **_comparison(revision, _other(request, revision)),
        }
        return TemplateResponse(request, "admin/registry/revision/compare.html", context)

    def _mine(self, request: HttpRequest, object_id: str) -> Revision:
        found: Revision | None = self.get_object(request, object_id)  # of the person's own team, or none
        if found is None or not self.has_change_permission(request, found):
            raise Http404
        return found

    def _restore(self, request: HttpRequest, revision: Revision) -> HttpResponse:
        agent, page = revision.agent, request.path
        current = request.POST.get("current", "")
        expected = int(current) if current.isascii() and current.isdigit() and len(current) < 10 else 0
        given: dict[str, Any] = {"expected": expected, "now": now(), **author_of(request)}
        try:
            result = manifests.restore(agent.namespace_id, agent.agent_id, revision.number, **given)
        except StateConflict:
            messages.warning(request, _meanwhile(agent))
            return redirect(page)
        except ReachError as error:
            messages.error(request, error.detail)
            return redirect(page)
        messages.success(request, gettext("Its content is now revision %(number)s.") % {"number": result.revision})
        return redirect(reverse("admin:registry_agent_change", args=[agent.pk]))


def _meanwhile(agent: Agent) -> str:
    """Whose revision has come since the page was opened."""
    newest = agent.revisions.first()
    if newest is None:
        return gettext("Nothing was changed: another revision has come meanwhile. Please look again.")
    return gettext(
        "Nothing was changed: meanwhile %(who)s has made revision %(number)s (%(at)s UTC). Please look again."
    ) % {
        "who": newest.created_by.removeprefix("user:") or "–",
        "number": newest.number,
        "at": newest.created_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
    }


def _other(request: HttpRequest, revision: Revision) -> Revision:
    """The revision to compare with."""
    asked = request.GET.get("to", str(revision.agent.revision))
    if not (asked.isascii() and asked.isdigit() and len(asked) < 10):
        raise Http404
    found = Revision.objects.filter(agent=revision.agent, number=int(asked)).first()
    if found is None:
        raise Http404
    return found


def _comparison(revision: Revision, other: Revision) -> dict[str, Any]:
    agent = revision.agent
    names = f"r{revision.number}", f"r{other.number}"
    numbers = Revision.objects.filter(agent=agent).order_by("-number").values_list("number", "created_at", "created_by")
    return {
        "revision": revision,
        "other": other,
        "agent": agent,
        "others": list(numbers[:OFFERED]),
        "changed": changed(revision.manifest, other.manifest),
        "lines": lines(text_diff(revision.manifest, other.manifest, *names)),
        "effect": None if revision.number == agent.revision else _effect(agent, revision),
    }


def _effect(agent: Agent, revision: Revision) -> dict[str, Any]:
    """What going back would do, in the words that its page needs."""
    spec = revision.manifest.get("spec", {})
    then = [one.get("name", "") for one in spec.get("capabilities", [])]
    today = list(Capability.objects.filter(agent=agent).order_by("id").values_list("name", flat=True))
    return {
        "number": agent.revision + 1,
        "version": revision.manifest.get("metadata", {}).get("version", ""),
        "come": [name for name in then if name not in today],
        "go": [name for name in today if name not in then],
        "owner": spec.get("owner", "") if spec.get("owner", "") != agent.owner else None,
    }

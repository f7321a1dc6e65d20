"""The views of the list that a person keeps under a name."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from common.errors import StateConflict
from insight.filters import Filter
from insight.models import SavedView
from insight.services import views

LONGEST_NAME = 60


def of_user(user: Any) -> list[SavedView]:
    """Their saved views by name."""
    return list(SavedView.objects.filter(user_id=user.pk).order_by("name"))


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Keeps the list that is looked at, or forgets one (`forget`); then shows the list again."""
    if not request.user.is_authenticated:
        return redirect("console:login")
    name = request.POST.get("name", "").strip()[:LONGEST_NAME]
    query = Filter.of(QueryDict(request.POST.get("query", "")[:4000])).query()[:4000]
    if not name or not name.isprintable():
        messages.warning(request, _("A view needs a name."))
    elif "forget" in request.POST:
        views.forget(request.user.pk, name)
        messages.success(request, _("The view is forgotten; its tasks are as they were."))
    else:
        try:
            views.save(request.user.pk, name, query)
            messages.success(request, _("The view is saved under that name, for you alone."))
        except StateConflict:
            messages.warning(request, _("You have as many saved views as can be kept: forget one first."))
    return redirect(f"{reverse('console:tasks')}?{query}")

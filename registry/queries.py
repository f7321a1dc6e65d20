"""Looking things up for the API's answers: one namespace, newest or in order, a page at a time."""

import uuid
from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet, Window
from django.db.models.functions import RowNumber

from common.errors import NotFound
from registry.models import (
    Agent,
    Audit,
    Client,
    Credential,
    Hook,
    HookFiring,
    Instance,
    Revision,
    StateChange,
)

CHANGES_SHOWN = 20


def agent(namespace: str, agent_id: str) -> Agent:
    """The agent. Raises NotFound."""
    found = Agent.objects.filter(namespace=namespace, agent_id=agent_id, deleted_at=None).first()
    if found is None:
        raise NotFound
    return found


def agents(namespace: str, *, tag: str | None, state: str | None, after: str | None) -> QuerySet[Agent]:
    """Agents by id; with a tag; with an instance in that state."""
    rows = Agent.objects.filter(namespace=namespace, deleted_at=None).defer("manifest", "warnings").order_by("agent_id")
    if tag:
        rows = rows.filter(tags__contains=[tag])
    if state:
        rows = rows.filter(Exists(Instance.objects.filter(agent=OuterRef("pk"), state=state, left_at=None)))
    return rows.filter(agent_id__gt=after) if after else rows


def instances(found: Agent, *, left: bool = False) -> QuerySet[Instance]:
    """The agent's instances by id; with `left` also those that said goodbye."""
    rows = Instance.objects.filter(agent=found).order_by("instance_id")
    return rows if left else rows.filter(left_at=None)


def newest_changes(rows: Collection[Instance]) -> dict[int, list[StateChange]]:
    """The newest state changes by instance, in one query."""
    place = Window(RowNumber(), partition_by=F("instance_id"), order_by=("-at", "-id"))
    changes = StateChange.objects.filter(instance__in=rows).annotate(place=place).filter(place__lte=CHANGES_SHOWN)
    found: dict[int, list[StateChange]] = {}
    for change in changes.order_by("instance_id", "-at", "-id"):
        found.setdefault(change.instance_id, []).append(change)
    return found


def revisions(found: Agent, *, before: int | None) -> QuerySet[Revision]:
    """Revisions, newest first."""
    rows = Revision.objects.filter(agent=found).order_by("-number")
    return rows if before is None else rows.filter(number__lt=before)


def clients(namespace: str, *, after: str | None) -> QuerySet[Client]:
    """Clients by name."""
    rows = Client.objects.filter(namespace=namespace).order_by("name")
    return rows.filter(name__gt=after) if after else rows


def newest_scopes(rows: Iterable[Client]) -> dict[int, list[str]]:
    """The scopes of each client's newest key, in one query."""
    keys = Credential.objects.filter(client__in=list(rows)).order_by("id")
    return {client_id: scopes for client_id, scopes in keys.values_list("client_id", "scopes") if client_id}


def hook(namespace: str, hook_id: uuid.UUID) -> Hook:
    """The hook. Raises NotFound."""
    found = Hook.objects.filter(namespace=namespace, pk=hook_id).select_related("agent").first()
    if found is None:
        raise NotFound
    return found


def hooks(namespace: str, *, agent_id: str | None, before: uuid.UUID | None) -> QuerySet[Hook]:
    """Hooks, newest first; with an agent id only that agent's own."""
    rows = Hook.objects.filter(namespace=namespace).select_related("agent").order_by("-id")
    rows = rows.filter(agent__agent_id=agent_id) if agent_id else rows
    return rows if before is None else rows.filter(id__lt=before)


def firings(found: Hook, *, state: str | None, before: uuid.UUID | None) -> QuerySet[HookFiring]:
    """What the hook had to tell, newest first; with a state only what is in it."""
    rows = HookFiring.objects.filter(hook=found).order_by("-id")
    rows = rows.filter(state=state) if state else rows
    return rows if before is None else rows.filter(id__lt=before)


def audit(*, namespace: str | None, before: int | None, **only: Any) -> QuerySet[Audit]:
    """Audit entries, newest first; of one namespace or of all."""
    rows = Audit.objects.filter(**{key: value for key, value in only.items() if value}).order_by("-id")
    if namespace:
        rows = rows.filter(namespace=namespace)
    return rows if before is None else rows.filter(id__lt=before)

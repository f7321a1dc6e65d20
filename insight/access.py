"""What a person who logs in may see and do with tasks."""

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q, QuerySet

from registry.models import Agent, Membership
from routing.models import Task

ACTING = frozenset({"admin", Membership.Role.OPERATOR, Membership.Role.SUPPORT})


@dataclass(frozen=True, slots=True)
class Viewer:
    """A logged-in person. `namespaces` None = all; `agents` None = all, else (namespace, agent id) of the own team."""

    name: str
    role: str  # admin, operator, support, owner
    namespaces: tuple[str, ...] | None = None
    agents: frozenset[tuple[str, str]] | None = field(default=None)

    @property
    def may_act(self) -> bool:
        """Whether retry, cancel and redeliver are theirs; owners only look."""
        return self.role in ACTING

    def tasks(self) -> QuerySet[Task]:
        """The tasks that this person may see."""
        return Task.objects.filter(self._scope())

    def _scope(self) -> Q:
        if self.agents is not None:
            scope = Q(pk__in=[])
            for namespace, agent_id in sorted(self.agents):
                scope |= Q(namespace=namespace, agent_id=agent_id)
            return scope
        return Q() if self.namespaces is None else Q(namespace__in=self.namespaces)


def viewer_of(user: Any) -> Viewer | None:
    """The person behind a Django user; None without a role."""
    if not user.is_authenticated or not user.is_active:
        return None
    if user.is_superuser:
        return Viewer(user.get_username(), "admin")
    membership = Membership.objects.filter(user=user).first()
    if membership is None:
        return None
    namespaces = None if "*" in membership.namespaces else tuple(membership.namespaces)
    if membership.role != Membership.Role.OWNER:
        return Viewer(user.get_username(), membership.role, namespaces)
    team = Agent.objects.filter(owner=membership.team, deleted_at=None).exclude(owner="")
    if namespaces is not None:
        team = team.filter(namespace__in=namespaces)
    agents = frozenset(team.values_list("namespace_id", "agent_id"))
    return Viewer(user.get_username(), membership.role, namespaces, agents)

"""Which routes a person may see, and whose traffic they may move: an owner's are those of the team's agents."""

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q, QuerySet

from registry.admin.access import Reach
from registry.models import Agent
from routing.models import Candidate


def routes_of(reach: Reach) -> Q:
    """The condition for routes that lead to an agent of one's own, among others perhaps."""
    if reach.everything:
        return Q()
    return Q(Exists(candidates_of(reach).filter(route=OuterRef("pk"))))


def candidates_of(reach: Reach) -> QuerySet[Candidate]:
    """Candidates that are agents of one's own."""
    if reach.everything:
        return Candidate.objects.all()
    agent = Agent.objects.filter(reach.agents(), namespace=OuterRef("route__namespace"), agent_id=OuterRef("agent_id"))
    return Candidate.objects.filter(Exists(agent))


def own_agents(reach: Reach, namespace: str, agent_ids: Iterable[str]) -> set[str]:
    """Those of the agents that are one's own; for operators all, registered or not."""
    named = set(agent_ids)
    if reach.everything:
        return named
    rows = Agent.objects.filter(reach.agents(), namespace=namespace, agent_id__in=named)
    return set(rows.values_list("agent_id", flat=True))

"""The newest tasks, lane by lane, are those that reading everything would find."""

import pytest
from django.db.models import Count, Q
from django.utils import timezone

from callbacks.models import Callback
from insight import newest
from insight.access import Viewer
from insight.filters import Filter
from insight.services import history
from routing.models import Attempt, Task
from routing.states import TaskState

MAIN, EU, TEST = history.NAMESPACES[:3]
AGENTS = frozenset({(MAIN, "ticket-classify"), (EU, "ticket-classify"), (MAIN, "ticket-triage-v2")})
VIEWERS = {
    "admin": Viewer("a", "admin"),
    "of two namespaces": Viewer("b", "support", (EU, TEST)),
    "of many namespaces": Viewer("c", "support", (MAIN, TEST, *(f"none-{n}" for n in range(newest.LANES_OF)))),
    "owner": Viewer("d", "owner", None, AGENTS),
}
FILTERS = [
    Filter(), Filter(namespace=EU), Filter(namespace="nobodys"), Filter(states=("FAILED",)),
    Filter(states=("RUNNING", "RECEIVED")), Filter(states=("RUNNING", "FAILED", "SUCCEEDED")),
    Filter(ability="ticket.classify"), Filter(ability="ticket.classify", states=("FAILED", "TIMEOUT")),
    Filter(ability="ticket.classify", states=("SUCCEEDED",)), Filter(client="shop", namespace=MAIN),
    Filter(client="crm", ability="ticket.triage"), Filter(error="AGENT_FAILED"), Filter(error="TIMEOUT", client="shop"),
    Filter(error="TIMEOUT", states=("SUCCEEDED",)), Filter(agent="ticket-classify"), Filter(agent="ticket-triage-v2", states=("SUCCEEDED",)), Filter(within="24h"),
    Filter(agent="ticket-classify", within="24h", ability="ticket.classify"), Filter(callback="DEAD"),
    Filter(callback="DELIVERED", states=("FAILED",)), Filter(within="24h", states=("SUCCEEDED",), namespace=TEST),
]  # fmt: skip


@pytest.fixture
def past(db):
    """900 tasks over three days, 40 of them open."""
    list(history.load(900, 3, 40, timezone.now()))


def told(viewer, asked, at):
    """What the filter asks for, as anyone would write it down."""
    rows = Task.objects.all()
    if viewer.namespaces is not None:
        rows = rows.filter(namespace__in=viewer.namespaces)
    if viewer.agents is not None:
        mine = Q(pk__in=[])
        for namespace, agent in viewer.agents:
            mine |= Q(namespace=namespace, agent_id=agent)
        rows = rows.filter(mine)
    columns = {
        "namespace": asked.namespace,
        "ability": asked.ability,
        "client": asked.client,
        "error_code": asked.error,
    }
    rows = rows.filter(**{name: value for name, value in columns.items() if value})
    if asked.agent:
        rows = rows.filter(id__in=Attempt.objects.filter(agent_id=asked.agent).values("task_id"))
    if asked.callback:
        rows = rows.filter(callback_id__in=Callback.objects.filter(state=asked.callback).values("id"))
    return rows.filter(created_at__gte=at - newest.SPANS[asked.within]) if asked.within else rows


def check(viewer, asked, at):
    rows = told(viewer, asked, at)
    states = rows.filter(state__in=asked.states) if asked.states else rows
    wanted = list(states.order_by("-id").values_list("id", flat=True)[:60])
    assert newest.ids(viewer, asked, at, 30) == wanted[:30], asked
    if len(wanted) > 30:
        assert newest.ids(viewer, asked, at, 30, wanted[29]) == wanted[30:], asked
    counted = dict(rows.order_by().values_list("state").annotate(n=Count("id")))
    whatever = newest.counts(viewer, asked.but(states=()), at, 10_000)
    assert whatever == dict.fromkeys(TaskState.values, 0) | counted, asked


def test_the_newest_are_those_that_reading_everything_finds(past):
    at = timezone.now()
    for viewer in VIEWERS.values():
        for asked in FILTERS:
            check(viewer, asked, at)


def test_what_a_lane_does_not_say_is_looked_for_among_its_newest(past, monkeypatch):
    monkeypatch.setattr(newest, "SEEN", 20)
    at, asked = timezone.now(), Filter(ability="ticket.classify", states=("SUCCEEDED",))
    assert 0 < len(newest.ids(VIEWERS["admin"], asked, at, 500)) <= 20 * len(history.NAMESPACES)
    assert len(newest.ids(VIEWERS["admin"], Filter(ability="ticket.classify"), at, 500)) > 20


@pytest.mark.django_db
def test_counting_looks_at_no_more_than_it_was_told(namespace):
    from tests.insight.rows import make_task

    for _ in range(5):
        make_task(namespace)
    counted = newest.counts(Viewer("a", "support", (namespace,)), Filter(), timezone.now(), 3)
    assert counted["SUCCEEDED"] == 3

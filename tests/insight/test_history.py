"""The made-up past is whole: what one table says of a task, the others say too."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from common.clock import now
from insight.services import history
from routing.models import Idempotency, Task
from tests.insight.rows import make_task
from tests.insight.test_console import login

pytestmark = pytest.mark.django_db

_ODD = {
    "events": """SELECT t.id FROM routing_task t LEFT JOIN LATERAL (
        SELECT count(*) AS n, max(seq) AS last, (array_agg(to_state ORDER BY seq DESC))[1] AS state
        FROM routing_event e WHERE e.task_id = t.id) e ON true
        WHERE e.n <> t.seq OR e.last <> t.seq OR e.state <> t.state""",
    "attempts": """SELECT t.id FROM routing_task t WHERE t.attempts <> (
        SELECT count(*) FROM routing_attempt a WHERE a.task_id = t.id AND (a.ended_at IS NOT NULL OR t.outcome IS NULL))""",
    "bodies": """SELECT t.id FROM routing_task t LEFT JOIN routing_taskbody b ON b.task_id = t.id
        WHERE b.request IS NULL OR (t.state = 'SUCCEEDED') <> (b.result IS NOT NULL)""",
    "callbacks": """SELECT t.id FROM routing_task t LEFT JOIN callbacks_callback c ON c.id = t.callback_id
        WHERE t.callback_id IS NOT NULL AND (c.subject_id IS DISTINCT FROM t.id OR c.attempts <> (
          SELECT count(*) FROM callbacks_delivery d WHERE d.callback_id = c.id))""",
    "ends": "SELECT id FROM routing_task WHERE (ended_at IS NULL) <> (outcome IS NULL) OR ended_at < created_at",
}


@pytest.fixture
def past(db):
    """600 tasks over three days, 20 of them open."""
    Task.objects.all().delete()  # within this test
    assert list(history.load(600, 3, 20, now())) == [600]
    return Task.objects.all()


def test_each_tables_rows_belong_together(past):
    assert (past.count(), past.filter(outcome=None).count()) == (600, 20)
    for name, statement in _ODD.items():
        with connection.cursor() as cursor:
            cursor.execute(statement)
            assert cursor.fetchall() == [], name


def test_it_has_namespaces_outcomes_and_ids_of_every_kind_and_can_be_made_again(past):
    list(history.load(300, 3, 0, now()))
    assert past.count() == 900
    assert set(past.values_list("outcome", flat=True)) >= {None, "SUCCEEDED", "FAILED"}
    assert past.filter(namespace="history-main").count() > 500
    assert Idempotency.objects.filter(task_id__in=past.values("id")).count() > 300


def test_its_journeys_can_be_looked_at(past):
    person = login("support")
    for state in ("SUCCEEDED", "FAILED", "RUNNING", "RECEIVED"):
        task = past.filter(state=state).first()
        assert person.get(f"/console/tasks/{task.id}/").status_code == 200


def test_a_database_that_holds_tasks_of_others_is_refused(namespace):
    make_task(namespace)
    with pytest.raises(CommandError, match="--add"):
        call_command("load_history", tasks=10)


@pytest.mark.parametrize("wrong", [{"tasks": 0}, {"days": 0}, {"days": 4000}, {"open": 11}, {"open": -1}])
def test_figures_that_make_no_sense_are_refused(wrong):
    with pytest.raises(CommandError, match="at least 1"):
        call_command("load_history", **{"tasks": 10, "days": 1, **wrong})

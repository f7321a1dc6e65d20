import datetime as dt
import uuid

import pytest

from callbacks.models import Callback
from common.errors import NotFound
from insight.journey import journey, load
from insight.timeline import timeline
from insight.traces import trace, tree
from insight.usage import usage
from routing.models import Task
from tests.insight.rows import NOW, make_attempt, make_callback, make_event, make_task, ms

pytestmark = pytest.mark.django_db


def test_a_journey_has_everything_that_happened_in_order(namespace):
    task = make_task(namespace, agent_id="ticket-classifier")
    make_attempt(task, 1, outcome="FAILED", code="TIMEOUT", certainty="MAYBE_RAN")
    make_attempt(task, 2)
    make_event(task, 2, "ROUTED", from_state="RECEIVED", to_state="ROUTED", attempt=1)
    make_callback(task, errors=("HTTP 500", None))
    document = journey(task.id, NOW, namespace=namespace)
    assert [e["event"] for e in document["events"]] == ["RECEIVED", "ROUTED"]
    assert [(a["attempt"], a["certainty"]) for a in document["attempts"]] == [(1, "MAYBE_RAN"), (2, "RAN")]
    assert [(d["attempt"], d["chosen"]["instanceId"], len(d["candidates"])) for d in document["decisions"]] == [
        (1, "i-1", 2),
        (2, "i-1", 2),
    ]
    assert [(d["attempt"], d["status"]) for d in document["callbackAttempts"]] == [(1, 500), (2, 204)]
    assert document["summary"]["actions"] == ["redeliver"]


@pytest.mark.parametrize("asker", [{"namespace": "elsewhere"}, {"client": "another"}])
def test_another_namespaces_or_clients_journey_is_not_there(namespace, asker):
    task = make_task(namespace)
    with pytest.raises(NotFound):
        journey(task.id, NOW, **asker)


def test_a_waiting_task_says_what_it_waits_for(namespace):
    task = make_task(namespace, "RECEIVED")
    make_event(task, 2, "WAITING", detail={"reason": "every instance is OFFLINE"})
    summary = journey(task.id, NOW)["summary"]
    assert "every instance is OFFLINE" in summary["cause"]["en"]
    assert summary["side"] == "agent"


def test_what_a_task_waited_for_is_history_once_it_was_routed(namespace):
    task = make_task(namespace, "DISPATCHED", agent_id="echo")
    make_event(task, 2, "WAITING", detail={"reason": "OFFLINE"})
    make_event(task, 3, "DISPATCHED", to_state="DISPATCHED")
    make_attempt(task, outcome=None, agent_id="echo")
    assert (
        journey(task.id, NOW)["summary"]["cause"]["en"] == "The request was sent to echo, which has not answered yet."
    )


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ({"kind": "static", "ability": "a", "agentId": None}, "a fixed answer"),
        ({"kind": "cached", "ability": "a", "agentId": None}, "the last good result"),
        ({"kind": "substitute", "ability": "ticket.triage", "agentId": "x"}, "the agents of ticket.triage"),
        ({"kind": "partial", "ability": "a", "agentId": None}, "what had arrived"),
    ],
)
def test_a_fallback_is_named_in_the_cause(namespace, by, words):
    result = {"status": "SUCCEEDED", "data": {}, "degraded": True, "degradedBy": by, "cost": None}
    task = make_task(namespace, result=result)
    assert f"The answer is a fallback: {words}" in journey(task.id, NOW)["summary"]["cause"]["en"]


def test_one_attempt_that_may_have_run_outweighs_those_never_sent(namespace):
    task = make_task(namespace, "FAILED", error_code="UNREACHABLE")
    make_attempt(task, 1, outcome="FAILED", certainty="MAYBE_RAN")
    make_attempt(task, 2, outcome="FAILED", certainty="NOT_SENT")
    assert "may have done the work" in journey(task.id, NOW)["summary"]["cause"]["en"]


def test_the_timeline_is_to_scale(namespace):
    task = make_task(namespace)
    make_attempt(task, sent_at=task.created_at + ms(50), received_at=task.created_at + ms(100),
                 ended_at=task.created_at + ms(200))  # fmt: skip
    (scale,) = timeline(load(task.id, Task.objects.all()), NOW)
    queue, attempt = scale.lanes
    assert scale.ms == 200
    assert [(b.kind, b.left, b.width) for b in queue.bars] == [("queue", 0, 24.9), ("route", 24.9, 0.5)]
    assert [(b.kind, b.left, b.width) for b in attempt.bars] == [("send", 25, 25), ("run", 50, 50)]


def test_a_wait_ends_with_the_choice_of_whom_to_send_to_next(namespace):
    task = make_task(namespace, "RUNNING")
    make_attempt(task, outcome="FAILED")
    make_attempt(task, 2, outcome=None, sent_at=task.created_at + ms(1000), decision={"tookMs": 40})
    (scale,) = timeline(load(task.id, Task.objects.all()), NOW + ms(2000))
    assert [(b.kind, b.ms) for b in scale.lanes[1].bars] == [("send", 10), ("run", 90), ("wait", 840), ("route", 40)]


def test_callbacks_that_take_much_longer_than_the_task_have_a_scale_of_their_own(namespace):
    task = make_task(namespace)
    make_attempt(task)
    make_callback(task, "DEAD", errors=("HTTP 500", "HTTP 500"))
    work, told = timeline(load(task.id, Task.objects.all()), NOW)
    assert (work.ms, [lane.name for lane in told.lanes]) == (200, ["callback"])


def test_bars_stay_on_the_scale_whatever_the_clocks_said(namespace):
    task = make_task(namespace)
    make_attempt(task, sent_at=task.created_at - ms(50), ended_at=task.created_at + ms(900))
    for scale in timeline(load(task.id, Task.objects.all()), NOW):
        for lane in scale.lanes:
            assert all(bar.left >= 0 and bar.left + bar.width <= 100 for bar in lane.bars)


def test_a_trace_is_the_tree_of_who_called_whom(namespace):
    root = make_task(namespace, trace_id="t-1")
    child = make_task(namespace, trace_id="t-1", parent_id=root.id)
    stray = make_task(namespace, trace_id="t-1", parent_id=uuid.uuid4())
    make_task("elsewhere", trace_id="t-1")
    tasks = trace("t-1", namespace=namespace)["tasks"]
    assert [t["taskId"] for t in tasks] == [str(root.id), str(stray.id)]
    assert [t["taskId"] for t in tasks[0]["children"]] == [str(child.id)]


def test_rows_that_call_each_other_parents_make_no_loop(namespace):
    first, second = make_task(namespace), make_task(namespace)
    first.parent_id, second.parent_id = second.id, first.id
    assert [t["taskId"] for t in tree([first, second])] == [str(first.id)]


def test_an_unknown_trace_is_not_there(namespace):
    with pytest.raises(NotFound):
        trace("nothing", namespace=namespace)


def charged(amount, currency="USD", **data):
    cost = {"amount": amount, "currency": currency}
    return {"status": "SUCCEEDED", "data": data, "degraded": False, "usage": None, "cost": cost}


def spend(namespace, by, **limits):
    return usage(by, namespace, NOW - dt.timedelta(days=1), NOW + dt.timedelta(days=1), **limits)["items"]


def test_usage_counts_and_sums_exactly(namespace):
    make_task(namespace, result=charged(0.1))
    make_task(namespace, result=charged(0.2))
    make_task(namespace, "FAILED")
    make_task(namespace, "RUNNING", client="other")
    rows = spend(namespace, "client")
    assert [(r["key"], r["count"], r["succeeded"], r["failed"]) for r in rows] == [
        ("shop", 3, 2, 1),
        ("other", 1, 0, 0),
    ]
    assert (str(rows[0]["cost"]["amount"]), rows[0]["cost"]["currency"]) == ("0.3", "USD")
    assert rows[1]["cost"] is None


def test_usage_does_not_believe_a_cost_inside_the_answers_data(namespace):
    make_task(
        namespace, result={"status": "SUCCEEDED", "data": {"cost": {"amount": 9, "currency": "USD"}}, "cost": None}
    )
    assert spend(namespace, "client")[0]["cost"] is None


def test_usage_survives_what_jsonb_refuses(namespace):
    make_task(namespace, result=charged(1, text="\x00\ud83d"))
    assert spend(namespace, "ability")[0]["cost"]["amount"] == 1


def test_unlike_currencies_are_not_added_up(namespace):
    make_task(namespace, result=charged(1, "USD"))
    make_task(namespace, result=charged(5, "CNY"))
    (row,) = spend(namespace, "ability")
    assert row["count"] == 2
    assert [(int(c["amount"]), c["currency"]) for c in row["costs"]] == [(5, "CNY"), (1, "USD")]


def test_usage_by_strategy_takes_that_of_the_last_attempt(namespace):
    task = make_task(namespace, attempts=2)
    make_attempt(task, 1, outcome="FAILED", decision={"strategy": "round_robin"})
    make_attempt(task, 2, decision={"strategy": "least_conn"})
    assert [(r["key"], r["count"]) for r in spend(namespace, "strategy")] == [("least_conn", 1)]


def test_usage_keeps_to_its_span_and_client(namespace):
    make_task(namespace, at=NOW - dt.timedelta(days=2))
    make_task(namespace, client="other")
    assert [r["key"] for r in spend(namespace, "client", client="other")] == ["other"]
    assert spend(namespace, "client", client="shop") == []


def test_a_journey_shows_which_callback_a_newer_one_took_the_place_of(namespace):
    task = make_task(namespace, "FAILED")
    older = make_callback(task, "PENDING", errors=("HTTP 500",))
    Callback.objects.filter(id=older.id).update(created_at=NOW - ms(60_000))
    latest = make_callback(task, "PENDING", errors=("HTTP 500",))
    shown = journey(task.id, NOW)["callbacks"]
    assert [one["webhookId"] for one in shown] == [f"msg_{older.id.hex}", f"msg_{latest.id.hex}"]
    assert [(one["state"], one["nextAttemptAt"] is None) for one in shown] == [("SUPERSEDED", True), ("PENDING", False)]

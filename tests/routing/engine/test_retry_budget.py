"""Retries that the budget forbids wait, and say so."""

from common import clock
from insight.journey import journey
from routing.breaker import budget
from tests.routing.engine.test_breaker import route, submit
from tests.routing.engine.test_engine import answers, ok


def test_a_retry_over_the_budget_waits_and_is_made_in_the_end(engine, town, monkeypatch):
    monkeypatch.setattr(budget, "LEAST", 2.0)
    route(town, consecutive=1000, minVolume=1000)
    monkeypatch.setattr("routing.engine.postponing.LOOK_AGAIN_S", 0.2)
    town.agent.answer = answers(*[ok(b"{}", 503)] * 8, ok())
    tasks = [submit(engine, town, retry={"backoffMs": 1}) for _ in range(8)]
    ended = town.ended(*tasks, seconds=60)
    assert {row["state"] for row in ended} == {"SUCCEEDED"}
    waits = [
        event["detail"]["reason"]
        for task_id in tasks
        for event in journey(task_id, clock.now())["events"]
        if event["event"] == "WAITING"
    ]
    assert "RETRY_BUDGET" in waits

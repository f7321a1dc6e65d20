"""Whatever happens in whatever order: only allowed moves, one end a round, one callback an end."""

import datetime as dt
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from common import clock
from common.errors import StateConflict
from common.json import dumps
from routing.services import report, sweep, workers
from routing.services.cancel import cancel
from routing.services.claim import claim
from routing.services.dispatch import dispatch
from routing.services.receipt import Receipt, received
from routing.services.retry import retry
from routing.services.settle import settle
from routing.services.waiting import put_back
from routing.states import FINAL, TaskState, may_move
from routing.trip import Claimed, Dispatch, GiveUp, Retry, Settlement, Succeed
from tests.routing.services.world import World, answered, callbacks_of, failed, rows, task

BOOTS = [uuid.uuid4(), uuid.uuid4()]
STAYS = frozenset({"WAITING", "WORKER_LOST", "FALLBACK", "PROGRESS", "LATE_RESULT"})
CALLBACK = {"type": "http", "url": "https://shop.example/cb"}
boots = st.sampled_from(BOOTS)
known = st.integers(0, 9)


class Life(RuleBasedStateMachine):
    """One task, two workers, and everybody's late and doubled messages."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.now = clock.now()
        self.id = self.world.accept(now=self.now, callback=CALLBACK).task_id
        self.held: list[Claimed] = []
        self.sent: list[Dispatch] = []

    @rule(seconds=st.sampled_from([0, 1, 5, 40, 400]))
    def time_goes_by(self, seconds: int) -> None:
        self.now += dt.timedelta(seconds=seconds)

    @rule(boot=boots)
    def a_worker_claims(self, boot: uuid.UUID) -> None:
        workers.renew(boot, 0)
        self.held += claim([self.id], boot, 1, self.now)

    @rule(boot=boots, which=known)
    def a_worker_sends(self, boot: uuid.UUID, which: int) -> None:
        if self.held:
            held = self.held[which % len(self.held)]
            times = {"routed_at": self.now, "sent_at": self.now, "deadline_at": self.now + dt.timedelta(seconds=30)}
            sending = self.world.sending(held, **times)
            if dispatch([sending], boot):
                self.sent.append(sending)

    @rule(boot=boots)
    def a_worker_finds_nobody(self, boot: uuid.UUID) -> None:
        put_back([(self.id, self.now, {"reason": "nobody"})], boot_id=boot, now=self.now)

    @rule(boot=boots, which=known, released=st.booleans())
    def a_receipt_comes(self, boot: uuid.UUID, which: int, released: bool) -> None:
        if self.sent:
            number = self.sent[which % len(self.sent)].number
            received([Receipt(self.id, number, self.now, worker=boot, released=released)])

    @rule(boot=boots, which=known, how=st.sampled_from(["succeed", "retry", "give up"]))
    def an_answer_comes(self, boot: uuid.UUID, which: int, how: str) -> None:
        if self.sent:
            decision: Any = {
                "succeed": Succeed(),
                "retry": Retry(self.now + dt.timedelta(seconds=1), "TIMEOUT"),
                "give up": GiveUp(TaskState.FAILED, "REJECTED", "no"),
            }[how]
            outcome = answered() if how == "succeed" else failed()
            number = self.sent[which % len(self.sent)].number
            settle([Settlement(self.id, number, decision, outcome, self.now, worker=boot)])

    @rule(which=known, status=st.sampled_from(["SUCCEEDED", "FAILED"]))
    def an_agent_reports(self, which: int, status: str) -> None:
        if self.sent:
            self.reports(self.sent[which % len(self.sent)].attempt_key, status)

    @rule(which=known)
    def progress_is_told(self, which: int) -> None:
        if self.sent:
            key = self.sent[which % len(self.sent)].attempt_key
            self.may_conflict(report.progress, self.id, key, b'{"percent": 5}', self.now)

    @rule(boot=boots)
    def a_worker_dies(self, boot: uuid.UUID) -> None:
        rows("UPDATE routing_worker SET expires_at = now() - interval '1 minute' WHERE boot_id = %s RETURNING 1", boot)

    @rule()
    def somebody_sweeps(self) -> None:
        sweep.sweep(self.now)

    @rule()
    def somebody_cancels(self) -> None:
        self.may_conflict(cancel, self.id, "shop", self.now)

    @rule()
    def somebody_retries(self) -> None:
        self.may_conflict(retry, self.id, "support", self.now)

    def reports(self, attempt_key: uuid.UUID, status: str) -> None:
        self.may_conflict(report.result, self.id, attempt_key, dumps({"status": status, "data": {}}), self.now)

    def may_conflict(self, call: Any, *given: Any) -> None:
        try:
            call(*given)
        except StateConflict:
            pass

    @invariant()
    def events_are_a_chain_of_allowed_moves(self) -> None:
        found = rows("SELECT * FROM routing_event WHERE task_id = %s ORDER BY seq", self.id)
        row = task(self.id)
        assert [one["seq"] for one in found] == list(range(1, row["seq"] + 1))
        state = None
        for one in found:
            assert one["from_state"] == state
            assert may_move(state, one["to_state"]) or (one["event"] in STAYS and one["to_state"] in (state, "RUNNING"))
            state = one["to_state"]
        assert state == row["state"]
        ends = sum(one["to_state"] in FINAL and one["event"] not in STAYS for one in found)
        late = sum(one["event"] == "LATE_RESULT" and one["to_state"] == "TIMEOUT" for one in found)
        assert ends == row["round"] - (row["state"] not in FINAL)
        assert len(callbacks_of(self.id)) == ends + late

    @invariant()
    def the_row_agrees_with_its_attempts(self) -> None:
        row = task(self.id)
        assert (row["outcome"] is not None) == (row["state"] in FINAL) == (row["ended_at"] is not None)
        assert not row["waiting"] or row["state"] in ("RECEIVED", "RETRY_WAIT")
        attempts = rows("SELECT * FROM routing_attempt WHERE task_id = %s ORDER BY number", self.id)
        assert [one["number"] for one in attempts] == list(range(1, row["attempts"] + 1))
        still_open = [one["number"] for one in attempts if one["ended_at"] is None]
        assert still_open == ([row["attempts"]] if row["state"] in ("DISPATCHED", "RUNNING") else [])


def test_no_order_of_events_breaks_a_tasks_life(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RESTART_GRACE_S", 0)
    monkeypatch.setattr(workers, "STEADY_S", 0)
    machine = type("LifeHere", (Life,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )  # fmt: skip

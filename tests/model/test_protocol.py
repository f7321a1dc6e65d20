"""The protocol as a model: states, leases and claims, with everybody who may take part dying anywhere.

`tests.routing.services.test_life` checks the moves of one task between two workers. Here fetching agents, status
addresses and callbacks take part too, decisions are the policy's, and in the end time passes: everything comes to rest.
"""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from callbacks import services as callbacks
from callbacks.messages import Due, Tried
from routing import snapshot
from routing.policy import RouteFacts, TaskFacts, decide
from routing.pulling import offer_to
from routing.services import lease, polls, workers
from routing.services.lease import Fetcher, Leased
from routing.services.polls import Poll
from routing.services.receipt import Receipt, received
from routing.services.settle import settle
from routing.services.sweep import sweep
from routing.services.waiting import put_back
from routing.snapshot import Snapshot
from routing.states import FINAL
from routing.trip import Await, Outcome, Settlement
from tests.routing.services.test_life import Life, boots, known
from tests.routing.services.world import ROUTE, World, answered, callbacks_of, failed, rows, task

LONG = dt.timedelta(days=2)
FACTS = RouteFacts(ROUTE.backoff_ms, ROUTE.jitter_ms, ROUTE.jitter_share, ROUTE.retryable)
OUTCOMES: dict[str, Callable[[], Outcome]] = {
    "well": answered,
    "time": failed,
    "refused": lambda: failed(retryable=False),
}
BEGINNINGS = ("waiting", "sent", "retried", "polled", "offered", "fetched", "ended")
_IS_OPEN = "SELECT 1 FROM routing_attempt WHERE task_id = %s AND key = %s AND ended_at IS NULL"


class Protocol(Life):
    """A claim, a lease or a question that a rule takes and no later rule uses is a process that died holding it."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[Leased] = []
        self.asked: list[Poll] = []
        self.deliveries: list[Due] = []
        self.delivered: set[uuid.UUID] = set()

    @initialize(boot=boots, begins=st.sampled_from(BEGINNINGS))
    def it_begins(self, boot: uuid.UUID, begins: str) -> None:
        """Somewhere on its way: from the start chance alone would rarely come far."""
        if begins != "waiting":
            self.a_worker_claims(boot)
        if begins in ("sent", "retried", "polled", "ended"):
            self.a_worker_sends(boot, 0)
        if begins == "retried":
            self.an_answer_comes(boot, 0, "time")
            self.now += dt.timedelta(seconds=5)
            self.a_worker_claims(boot)
            self.a_worker_sends(boot, 1)
            self.an_answer_comes(boot, 0, "well")  # the first attempt's, late
        if begins == "polled":
            self.a_receipt_names_a_status_address(boot, 0)
            self.now += dt.timedelta(seconds=5)
            self.somebody_asks_the_status_address()
        if begins == "ended":
            self.an_answer_comes(boot, 0, "well")
            self.now += dt.timedelta(seconds=1)
            self.somebody_takes_due_callbacks()
        if begins in ("offered", "fetched"):
            self.it_is_offered_to_those_that_fetch(boot)
        if begins == "fetched":
            self.an_agent_fetches()

    @rule(seconds=st.sampled_from([0, 1, 4, 31]))
    def time_goes_by(self, seconds: int) -> None:
        """Not so far that most tasks are over at once."""
        self.now += dt.timedelta(seconds=seconds)

    @rule(boot=boots)
    def a_worker_offers_and_an_agent_fetches(self, boot: uuid.UUID) -> None:
        self.a_worker_claims(boot)
        self.it_is_offered_to_those_that_fetch(boot)
        self.an_agent_fetches()

    @rule(boot=boots, which=known, how=st.sampled_from(sorted(OUTCOMES)))
    def an_answer_comes(self, boot: uuid.UUID, which: int, how: str) -> None:
        """As in a worker: the policy decides, by what it knew when it sent."""
        if self.sent:
            sent = self.sent[which % len(self.sent)]
            facts = TaskFacts(sent.number, sent.task.max_attempts, sent.task.deadline_at, sent.task.expires_at)
            outcome = OUTCOMES[how]()
            decision = decide(outcome, facts, FACTS, self.now)
            assert not isinstance(decision, Await)
            settlement = Settlement(self.id, sent.number, decision, outcome, self.now, worker=boot)
            self.counts_if_open(sent.attempt_key, settle, [settlement])

    def reports(self, attempt_key: uuid.UUID, status: str) -> None:
        self.counts_if_open(attempt_key, super().reports, attempt_key, status)

    def counts_if_open(self, attempt_key: uuid.UUID, call: Callable[..., Any], *given: Any) -> None:
        """What is said of an attempt that has ended must leave the task where it is."""
        found = rows(_IS_OPEN, self.id, attempt_key)
        before = task(self.id)["state"]
        call(*given)
        assert found or task(self.id)["state"] == before

    @rule(boot=boots, which=known)
    def a_receipt_names_a_status_address(self, boot: uuid.UUID, which: int) -> None:
        if self.sent:
            number = self.sent[which % len(self.sent)].number
            url = "http://127.0.0.1:1/status"
            received([Receipt(self.id, number, self.now, worker=boot, released=True, poll_url=url)])

    @rule()
    def somebody_asks_the_status_address(self) -> None:
        self.asked += [one for one in polls.claim(self.now, 100) if one.task_id == self.id]

    @precondition(lambda self: self.asked)
    @rule(which=known, how=st.sampled_from([*sorted(OUTCOMES), "not yet"]))
    def the_status_address_answers(self, which: int, how: str) -> None:
        poll = self.asked[which % len(self.asked)]
        if how == "not yet":
            polls.later([(poll, self.now + dt.timedelta(seconds=4))])
        else:
            self.counts_if_open(poll.key, polls.ended, poll, OUTCOMES[how](), self.now)

    @rule(boot=boots)
    def it_is_offered_to_those_that_fetch(self, boot: uuid.UUID) -> None:
        due_at = self.now + dt.timedelta(seconds=30)
        put_back([(self.id, due_at, {"reason": offer_to("worker")})], boot_id=boot, now=self.now)

    @rule()
    def an_agent_fetches(self) -> None:
        self.fetched += lease.take(Fetcher(self.world.namespace, "worker", "i1"), 1, self.now)

    @precondition(lambda self: self.fetched)
    @rule(which=known)
    def the_agent_had_hung_up(self, which: int) -> None:
        leased = self.fetched[which % len(self.fetched)]
        self.counts_if_open(leased.attempt_key, lease.unread, [leased], self.now)

    @precondition(lambda self: self.fetched)
    @rule(which=known, status=st.sampled_from(["SUCCEEDED", "FAILED"]))
    def the_agent_that_fetched_reports(self, which: int, status: str) -> None:
        self.reports(self.fetched[which % len(self.fetched)].attempt_key, status)

    @rule()
    def somebody_takes_due_callbacks(self) -> None:
        self.deliveries += [one for one in callbacks.claim(self.now, 100) if one.subject_id == self.id]

    @precondition(lambda self: self.deliveries)
    @rule(which=known, status=st.sampled_from([200, 500, None]))
    def a_delivery_comes_to_its_end(self, which: int, status: int | None) -> None:
        self.deliver(self.deliveries[which % len(self.deliveries)], status)

    def deliver(self, due: Due, status: int | None) -> None:
        error = None if status == 200 else "no"
        callbacks.finish([Tried(due, self.now, 5, status, error, False, b"", None)], self.now)
        if status == 200:
            self.delivered.add(due.id)

    @invariant()
    def no_attempt_is_one_too_many(self) -> None:
        row = task(self.id)
        assert row["attempts"] <= row["max_attempts"]

    @invariant()
    def who_holds_nothing_is_not_waited_for(self) -> None:
        """Open, not waiting, and held by nobody: such a task would hang on its deadline alone."""
        row = task(self.id)
        if row["state"] in ("RECEIVED", "RETRY_WAIT") and not row["waiting"]:
            assert rows("SELECT 1 FROM routing_worker WHERE boot_id = %s", row["worker"])

    def teardown(self) -> None:
        """Time passes, and one worker and one deliverer do their duty."""
        workers.renew(uuid.uuid4(), 0)
        self.now += LONG
        sweep(self.now)
        assert task(self.id)["state"] in FINAL
        assert rows("SELECT 1 FROM routing_attempt WHERE task_id = %s AND ended_at IS NULL", self.id) == []
        for _ in range(2 * len(callbacks_of(self.id)) + 1):
            self.now += dt.timedelta(minutes=1)
            for due in [one for one in callbacks.claim(self.now, 100) if one.subject_id == self.id]:
                self.deliver(due, 200)
        told = callbacks_of(self.id)
        assert {one["state"] for one in told} <= {"DELIVERED", "SUPERSEDED", "DEAD"}
        assert told[-1]["id"] in self.delivered or told[-1]["state"] == "DEAD"


def test_whoever_dies_wherever_everything_comes_to_rest_and_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RESTART_GRACE_S", 0)
    monkeypatch.setattr(workers, "STEADY_S", 0)
    _let_the_agent_fetch(world, monkeypatch)
    machine = type("ProtocolHere", (Protocol,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )  # fmt: skip


def _let_the_agent_fetch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ability = world.abilities["echo"]
    [one] = ability.candidates
    agent = replace(one.agent, channels=("http", "pull"))
    world.abilities["echo"] = replace(ability, candidates=(replace(one, agent=agent),))
    taken: Any = snapshot.current

    def current(namespace: str, version: int = 1) -> Snapshot:
        return replace(taken(namespace, version), agents={"worker": agent})

    monkeypatch.setattr(snapshot, "current", current)
    monkeypatch.setattr(snapshot, "at_least", current)

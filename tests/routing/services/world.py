"""A namespace with what a task needs, and the steps of its trip; all of it is committed."""

import datetime as dt
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection

from common import clock
from common.ids import uuid7
from common.json import dumps
from common.schema import Validator
from registry.models import Client, Namespace
from registry.principal import Principal
from routing import endings, queue, snapshot
from routing.requests import ReachRequest, parse
from routing.services import accept as accepting
from routing.services.claim import claim
from routing.services.dispatch import dispatch
from routing.services.settle import settle
from routing.snapshot import Ability, AgentView, CandidateView, CapabilityView, InstanceView, RouteView, Snapshot
from routing.states import Certainty, TaskError
from routing.trip import Accepted, Claimed, Dispatch, Outcome, Settlement, Succeed

ROUTE = RouteView("least_conn", 3, (1000, 2000, 4000), 500, None, frozenset({"TIMEOUT", "UNREACHABLE"}))


@dataclass
class World:
    """One namespace with a client, an agent `worker` behind the ability `echo`, and one worker process."""

    namespace: str
    boot: uuid.UUID = field(default_factory=uuid.uuid4)
    nudged: list[uuid.UUID] = field(default_factory=list)
    ended: list[uuid.UUID] = field(default_factory=list)
    abilities: dict[str, Ability] = field(default_factory=dict)

    def principal(self, client: str = "shop", **more: Any) -> Principal:
        return Principal("client", self.namespace, client, None, frozenset({"tasks:write"}), ("*",), **more)

    def request(self, **fields: Any) -> ReachRequest:
        return parse(dumps({"target": {"ability": "echo"}, "payload": {"x": 1}, **fields}))

    def accept(self, *, client: str = "shop", now: dt.datetime | None = None, **fields: Any) -> Accepted:
        now = now or clock.now()
        return accepting.accept(
            self.principal(client), self.namespace, self.request(**fields), traceparent=None, now=now
        )

    def claim(self, task_id: uuid.UUID, now: dt.datetime | None = None, boot: uuid.UUID | None = None) -> Claimed:
        [held] = claim([task_id], boot or self.boot, 10, now or clock.now())
        return held

    def send(self, held: Claimed, boot: uuid.UUID | None = None, **more: Any) -> Dispatch:
        one = self.sending(held, **more)
        assert dispatch([one], boot or self.boot) == {held.task_id}
        return one

    def sending(self, held: Claimed, **more: Any) -> Dispatch:
        now = clock.now()
        fields = {
            "task": held, "attempt_key": uuid7(), "agent_id": "worker", "instance_id": "i1", "capability": "echo",
            "channel": "http", "decision": {"strategy": "least_conn"}, "deadline_at": now + dt.timedelta(seconds=30),
            "routed_at": now, "sent_at": now, "timings": {"queuedMs": 1},
        }  # fmt: skip
        return Dispatch(**{**fields, **more})

    def running(self, **fields: Any) -> Dispatch:
        """A task that was accepted, claimed and sent."""
        return self.send(self.claim(self.accept(**fields).task_id))

    def settle(self, sent: Dispatch, decision: Any = None, outcome: Outcome | None = None, **more: Any) -> Any:
        given = {"worker": self.boot, "now": clock.now(), **more}
        lease = given.pop("lease_callbacks", False)
        one = Settlement(sent.task.task_id, sent.number, decision or Succeed(), outcome or answered(), **given)
        return settle([one], lease_callbacks=lease)[0]


def answered(data: bytes = b'{"y": 1.10}', **more: Any) -> Outcome:
    return Outcome("SUCCEEDED", Certainty.RAN, clock.now(), received_at=clock.now(), data=data, **more)


def failed(code: TaskError = TaskError.TIMEOUT, certainty: Certainty = Certainty.MAYBE_RAN, **more: Any) -> Outcome:
    return Outcome("FAILED", certainty, clock.now(), code=code, message="no answer", **more)


def new_world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A fresh one; the registry's snapshot and the hints to other processes are stood in for."""
    world = World(f"t-{uuid.uuid4().hex[:12]}")
    Namespace.objects.create(name=world.namespace)
    Client.objects.create(namespace_id=world.namespace, name="shop", abilities=["*"])
    schema = Validator({"type": "object", "properties": {"x": {"type": "number"}}})
    agent = AgentView("worker", version="2.1.0", instances=(InstanceView("i1", "worker", "http://127.0.0.1:1/"),))
    capability = CapabilityView("echo", input=schema)
    world.abilities["echo"] = Ability("echo", False, ROUTE, (CandidateView(agent, capability),))

    def taken(namespace: str, version: int = 1) -> Snapshot:
        return Snapshot(namespace, version, clock.now(), dict(world.abilities), {"worker": agent})

    monkeypatch.setattr(snapshot, "current", taken)
    monkeypatch.setattr(snapshot, "at_least", taken)
    monkeypatch.setattr(queue, "nudge", world.nudged.extend)
    monkeypatch.setattr(endings, "publish", world.ended.extend)
    return world


def rows(statement: str, *values: Any) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def task(task_id: uuid.UUID) -> dict[str, Any]:
    return rows("SELECT * FROM routing_task JOIN routing_taskbody ON task_id = id WHERE id = %s", task_id)[0]


def events(task_id: uuid.UUID) -> list[str]:
    return [row["event"] for row in rows("SELECT event FROM routing_event WHERE task_id = %s ORDER BY seq", task_id)]


def callbacks_of(task_id: uuid.UUID) -> list[dict[str, Any]]:
    return rows("SELECT * FROM callbacks_callback WHERE subject_id = %s ORDER BY created_at", task_id)

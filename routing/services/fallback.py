"""What becomes of a task that would end without a result: the next step of its plan that can be taken, or that end."""

import datetime as dt
import logging
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import DatabaseError, InterfaceError

from common.json import dumps
from registry.selectors import components_down
from routing import snapshot
from routing.fallback import CACHED, NO_PLAN, PARTIAL, STATIC, Plan, Step, dependencies_named, independent, plan_of
from routing.services import good
from routing.services.facts import AttemptFacts
from routing.snapshot import Ability
from routing.states import Certainty, TaskError, TaskState
from routing.trip import Claimed, Degrade, GiveUp, Outcome, Retry, Substitute, Succeed

log = logging.getLogger(__name__)

_AS_IT_IS = frozenset({TaskError.CANCELLED, TaskError.BUDGET_EXHAUSTED})  # ends that nothing stands in for


class _Request(msgspec.Struct):
    fallback: dict[str, msgspec.Raw] | None = None


_request = msgspec.json.Decoder(_Request).decode


@dataclass(frozen=True, slots=True)
class Falling:
    """A task about to end without a result."""

    namespace: str
    client: str
    ability: str
    request: bytes
    attempts: int
    deadline_at: dt.datetime
    fallback: dict[str, Any] | None  # as in `Substitute`, when one had it already
    side_effects: bool  # of the capability that had it last

    @classmethod
    def of(cls, task: Claimed | AttemptFacts, attempts: int, *, side_effects: bool) -> "Falling":
        return cls(
            task.namespace, task.client, task.ability, task.request, attempts, task.deadline_at, task.fallback,
            side_effects,
        )  # fmt: skip

    @property
    def plan(self) -> Plan:
        """What its request and its route say; read anew each time, as routes change."""
        ability = snapshot.current(self.namespace).abilities.get(self.ability)
        route = ability.route.fallback if ability else {}
        if b'"fallback"' not in self.request:
            return plan_of(None, route, self.ability) if route else NO_PLAN
        asked = _request(self.request).fallback or {}
        return plan_of({name: _value(name, bytes(raw)) for name, raw in asked.items()}, route, self.ability)


def _value(name: str, raw: bytes) -> Any:
    """A static answer stays as it was written."""
    return raw if name == "static" and raw != b"null" else msgspec.json.decode(raw)


def after(give_up: GiveUp, task: Falling, outcome: Outcome | None, now: dt.datetime) -> Substitute | Degrade | GiveUp:
    """The next step that can be taken; where there is none, the end that the task itself came to."""
    plan = NO_PLAN if give_up.code in _AS_IT_IS else task.plan
    if not plan.steps:
        return give_up
    try:
        return _Fall(give_up, task, outcome, now, plan).next()
    except (DatabaseError, InterfaceError) as error:
        log.warning("a fallback could not be looked up: %s", type(error).__name__)
        return give_up


def instead(
    decision: Succeed | Retry | GiveUp, task: Falling, outcome: Outcome | None, now: dt.datetime
) -> Succeed | Retry | GiveUp | Substitute | Degrade:
    """A decision, with what the task falls back on in an end's place."""
    return after(decision, task, outcome, now) if isinstance(decision, GiveUp) else decision


class _Fall:
    """One walk along a plan."""

    def __init__(self, give_up: GiveUp, task: Falling, outcome: Outcome | None, now: dt.datetime, plan: Plan):
        self._task, self._outcome, self._now, self._plan = task, outcome, now, plan
        before = task.fallback or {"step": -1, "down": [], "cause": _cause(give_up)}
        self._cause, self._from = before["cause"], int(before["step"]) + 1
        details = outcome.details if outcome and outcome.kind == "FAILED" else None
        self._down = frozenset(before["down"]) | dependencies_named(details)
        # What may have had its effect must not have it again somewhere else.
        unsure = outcome is not None and outcome.certainty == Certainty.MAYBE_RAN and task.side_effects
        self._unsure = unsure or give_up.code == TaskError.MAYBE_RAN or bool(before.get("unsure"))
        self._skipped: list[dict[str, Any]] = []

    def next(self) -> Substitute | Degrade | GiveUp:
        for number, step in enumerate(self._plan.steps[self._from :], self._from):
            if step.kind == STATIC:
                return self._degrade(step.kind, step.value)
            if step.kind == PARTIAL:
                if (part := self._part()) is not None:
                    return self._degrade(step.kind, dumps(part))
            elif step.kind == CACHED:
                since = self._now - dt.timedelta(milliseconds=self._plan.cached_ms)
                task = self._task
                if found := good.find(task.namespace, task.client, task.ability, task.request, since):
                    return self._degrade(step.kind, found[1], at=found[0])
            elif self._may_substitute(step):
                return self._substitute(number, step)
        return _end(self._cause)

    def _part(self) -> Any:
        """What was kept of an answer that broke off: the last attempt's, else that of the task's own ability."""
        details = self._outcome.details if self._outcome else None
        for kept in (details or {}, self._cause["details"] or {}):
            if kept.get("partial") is not None:
                return kept["partial"]
        return None

    def _degrade(self, kind: str, data: bytes, **more: Any) -> Degrade:
        by = {"kind": kind, "ability": self._task.ability, "agentId": None, **more}
        return Degrade(data, by, self._cause["code"], tuple(self._skipped))

    def _substitute(self, number: int, step: Step) -> Substitute:
        fallback = {
            "step": number,
            "ability": step.ability,
            "since": self._task.attempts,
            "down": sorted(self._down),
            "unsure": self._unsure,
            "cause": self._cause,
        }
        return Substitute(fallback, tuple(self._skipped))

    def _known_down(self, ability: Ability) -> frozenset[str]:
        needed = {name for one in ability.candidates for name in one.capability.dependencies} - self._down
        self._down |= components_down(self._task.namespace, needed) if needed else frozenset()
        return self._down

    def _may_substitute(self, step: Step) -> bool:
        ability = snapshot.current(self._task.namespace).abilities.get(step.ability)
        reason = None
        if ability is None:
            reason = "UNKNOWN"
        elif self._now >= self._task.deadline_at:
            reason = "NO_TIME"
        elif self._unsure:
            reason = "MAYBE_RAN"
        elif not independent(ability, self._known_down(ability)).candidates:
            reason = "DEPENDENCY"
        if reason:
            self._skipped.append({"ability": step.ability, "reason": reason})
        return reason is None


def _cause(give_up: GiveUp) -> dict[str, Any]:
    return {
        "state": give_up.state.value,
        "code": give_up.code.value,
        "message": give_up.message,
        "retryable": give_up.retryable,
        "details": give_up.details,
    }


def _end(cause: dict[str, Any]) -> GiveUp:
    return GiveUp(
        TaskState(cause["state"]), TaskError(cause["code"]), cause["message"], cause["retryable"], cause["details"]
    )

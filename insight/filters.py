"""What a list of tasks is narrowed to, as its address says it, so that every view is a link."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.http import QueryDict

from callbacks.models import Callback, CallbackState
from common.clock import rfc3339
from common.ids import floor_id
from routing.models import Attempt, Task
from routing.states import FINAL, TaskState

SPANS = {"1h": dt.timedelta(hours=1), "24h": dt.timedelta(days=1), "7d": dt.timedelta(days=7)}
TOLD = (CallbackState.DEAD.value, CallbackState.DELIVERED.value)
LONGEST = 200
NAMES = ("namespace", "ability", "agent", "client", "error", "callback", "within")
_BULK = {
    "ability": "ability",
    "agent": "agentId",
    "client": "client",
    "error": "errorCode",
    "callback": "callbackState",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """`q` is the search box's text; empty members narrow nothing down."""

    q: str = ""
    states: tuple[str, ...] = ()
    namespace: str = ""
    ability: str = ""
    agent: str = ""
    client: str = ""
    error: str = ""
    callback: str = ""
    within: str = ""

    @classmethod
    def of(cls, given: QueryDict) -> "Filter":
        """As an address says it; what no stored text can be, and what nobody knows, is nothing."""
        texts = {name: _text(given.get(name, "")) for name in NAMES}
        if texts["within"] not in SPANS:
            texts["within"] = ""
        if texts["callback"] not in TOLD:
            texts["callback"] = ""
        states = tuple(state for state in given.getlist("state") if state in TaskState.values)
        return cls(q=given.get("q", "").strip(), states=states, **texts)

    def set(self) -> Iterator[tuple[str, str]]:
        """What is narrowed down besides state and search: (name, value)."""
        return ((name, value) for name in NAMES if (value := getattr(self, name)))

    def query(self, **more: str) -> str:
        """The address's query; `more` adds parameters."""
        query = QueryDict(mutable=True)
        given: dict[str, str | list[str]] = {"q": self.q, "state": list(self.states), **dict(self.set()), **more}
        for name, value in given.items():
            query.setlist(name, [*value] if isinstance(value, list) else [value] if value else [])
        return query.urlencode()

    def but(self, **changes: Any) -> "Filter":
        """The same with other members."""
        return replace(self, **changes)

    def narrow(self, tasks: QuerySet[Task], now: dt.datetime) -> QuerySet[Task]:
        """Those of a few tasks that fit, whatever their state."""
        equal = {"namespace": self.namespace, "ability": self.ability, "client": self.client, "error_code": self.error}
        tasks = tasks.filter(**{column: value for column, value in equal.items() if value})
        if self.agent:
            tasks = tasks.filter(Exists(Attempt.objects.filter(task_id=OuterRef("id"), agent_id=self.agent)))
        if self.callback:
            tasks = tasks.filter(Exists(Callback.objects.filter(state=self.callback, id=OuterRef("callback_id"))))
        return tasks.filter(id__gte=floor_id(now - SPANS[self.within])) if self.within else tasks

    def in_state(self, tasks: QuerySet[Task]) -> QuerySet[Task]:
        """Those in one of the states, if any are named."""
        if not self.states:
            return tasks
        ended = {"outcome__in": self.states} if FINAL.issuperset(self.states) else {}
        return tasks.filter(state__in=self.states, **ended)

    def bulk(self, found: dict[str, Any] | None, now: dt.datetime) -> dict[str, Any] | None:
        """The same as a bulk action's filter, `found` being the search's part of it; None when it cannot be said.

        The namespace is no part of it: a bulk action has one of its own.
        """
        if found is None or len(self.states) > 1:
            return None
        said: dict[str, Any] = {_BULK[name]: value for name, value in self.set() if name in _BULK}
        if any(said.get(name, value) != value for name, value in found.items()):
            return None  # the search says one thing and a link another: nothing is both
        said |= found
        if self.states:
            said["state"] = self.states[0]
        if self.within:
            said["createdAfter"] = rfc3339(now - SPANS[self.within])
        return said


def _text(given: str) -> str:
    given = given.strip()[:LONGEST]
    return given if given.isprintable() else ""

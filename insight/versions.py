"""Versions of what pages show: a number that is another one as soon as the page would look different."""

import time
import zlib
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.http import QueryDict

from callbacks.models import Callback
from common.clock import now
from common.database import robust
from insight import search
from insight.access import Viewer, viewer_of
from insight.filters import Filter
from insight.models import Bulk
from routing.models import Task

LIST_S = 2.0  # a list is looked at again after this, for all who look at the same one
PERSON_S = 5.0  # a person's account and role are
OVER = -1  # no version: the session has ended, or the person may see something else than before


class Person(NamedTuple):
    """Somebody as they were when they opened the page; `proof` changes with the password."""

    session: str
    user: int
    proof: str
    viewer: Viewer


class Shown(NamedTuple):
    """What a page shows: a list by its address's query, a task or a bulk action by its id."""

    kind: str  # list, task, bulk
    name: str


class Watched(NamedTuple):
    """One page of one person."""

    shown: Shown
    person: Person


def of(*parts: object) -> int:
    """The version of something that is described by these parts."""
    return zlib.crc32("|".join(map(str, parts)).encode())


def of_list(tasks: Iterable[Task]) -> int:
    """Of a page of a list: other tasks, or another step of one."""
    return of(*(f"{task.id}.{task.seq}" for task in tasks))


def of_task(seq: int, state: str, callback: tuple[str, int] | None) -> int:
    """Of a journey: another event, or another (state, number of tries) of the callback."""
    return of(seq, state, *(callback or ()))


def of_bulk(state: str, done: int, skipped: int) -> int:
    """Of a bulk action, by how far it is."""
    return of(state, done, skipped)


class Look:
    """Reads the versions of many pages at once; for one thread, as it remembers for a moment what it has read."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, int]] = {}

    @robust(patience=5.0)
    def __call__(self, watched: list[Watched]) -> list[tuple[Watched, int]]:
        """(page, its version) of each; OVER where it may not be looked at any more."""
        at = time.monotonic()
        self._kept = {key: kept for key, kept in self._kept.items() if kept[0] > at}
        sessions = _sessions({one.person.session for one in watched})
        by_id = _tasks(_names(watched, "task")) | _bulks(_names(watched, "bulk"))
        return [(one, self._version(one, sessions, by_id, at)) for one in watched]

    def _version(self, one: Watched, sessions: set[str], by_id: dict[str, int], at: float) -> int:
        person, shown = one.person, one.shown
        if person.session not in sessions or not self._once(person, at + PERSON_S, lambda: _is_same(person)):
            return OVER
        if shown.kind != "list":
            return by_id.get(shown.name, 0)
        return self._once((shown, person.viewer), at + LIST_S, lambda: _list(shown.name, person.viewer))

    def _once(self, key: Hashable, until: float, read: Callable[[], int]) -> int:
        if key not in self._kept:
            self._kept[key] = (until, read())
        return self._kept[key][1]


def _names(watched: list[Watched], kind: str) -> list[str]:
    return [one.shown.name for one in watched if one.shown.kind == kind]


def _sessions(keys: set[str]) -> set[str]:
    """Those of the sessions that have not ended."""
    return set(
        Session.objects.filter(session_key__in=keys, expire_date__gt=now()).values_list("session_key", flat=True)
    )


def _is_same(person: Person) -> bool:
    """Whether the person's password, role and reach are what they were."""
    user = get_user_model().objects.filter(pk=person.user).first()
    return user is not None and user.get_session_auth_hash() == person.proof and viewer_of(user) == person.viewer


def _tasks(ids: list[str]) -> dict[str, int]:
    if not ids:
        return {}
    rows = list(Task.objects.filter(id__in=ids).values_list("id", "seq", "state", "callback_id"))
    told = Callback.objects.filter(id__in=[callback for *_, callback in rows if callback])
    callbacks = {id: (state, tries) for id, state, tries in told.values_list("id", "state", "attempts")}
    return {
        str(id): of_task(seq, state, callbacks.get(callback) if callback else None) for id, seq, state, callback in rows
    }


def _bulks(ids: list[str]) -> dict[str, int]:
    if not ids:
        return {}
    rows = Bulk.objects.filter(pk__in=ids).values_list("pk", "state", "done", "skipped")
    return {str(pk): of_bulk(state, done, skipped) for pk, state, done, skipped in rows}


def _list(query: str, viewer: Viewer) -> int:
    asked = Filter.of(QueryDict(query))
    at = now()
    return of_list(search.find(viewer, asked, at).page(viewer, at).tasks)

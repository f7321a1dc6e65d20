"""What the audit log says about one thing, as people read it: who changed which of its parts, and when."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from registry.differences import Changed, changed
from registry.models import Audit

PLACES = 4  # that a sentence names; the audit log has all
LONGEST = 80  # characters of a value in it

Readable = Callable[[Any], Any]  # a document as it is to be compared


@dataclass(frozen=True, slots=True)
class Edit:
    """One entry of the audit log with the places that differ; `before` and `after` as they were recorded."""

    at: dt.datetime
    actor: str
    action: str
    before: Any
    after: Any
    changed: list[Changed]


def edits(
    namespace: str, object: str, *, since: dt.datetime, most: int, readable: Readable = lambda document: document
) -> list[Edit]:
    """What was done to it, newest first. `since` bounds how much of the namespace's log is looked through."""
    rows = Audit.objects.filter(namespace=namespace, object=object, at__gte=since).order_by("-at", "-id")
    return [
        Edit(
            row.at,
            row.actor,
            row.action,
            row.before,
            row.after,
            changed(readable(row.before or {}), readable(row.after or {})),
        )
        for row in rows[:most]
    ]


def in_words(edit: Edit) -> str:
    """Who, when, and which values became which."""
    told = [_told(one) for one in edit.changed[:PLACES]]
    if len(edit.changed) > PLACES:
        told.append(_("%(count)s more") % {"count": len(edit.changed) - PLACES})
    who, at = edit.actor.removeprefix("user:"), edit.at.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{who}, {at} UTC: {'; '.join(told) or edit.action}"


def _told(one: Changed) -> str:
    return f"{one.place} {_short(one.before)} → {_short(one.after)}"


def _short(value: str | None) -> str:
    if value is None:
        return "–"
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"

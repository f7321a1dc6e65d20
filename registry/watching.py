"""What watchers of a catalog are sent, and from where on: positions, their ids, and the frames.

A position is (version, number): the namespace's version and the place among that version's events. An id without a
number stands for the whole version.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from common.database import robust
from common.encoding import dumps
from registry import selectors
from registry.models import CatalogEvent
from registry.services.changes import KEPT

WHOLE = 1 << 31
PAGE = 500
_ID = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?", re.ASCII)

Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, ready to be sent; `ability` is whose rights it needs, if any."""

    position: Position
    ability: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Start:
    """Where a stream begins: with `lost`, what the watcher asked for can no longer be told."""

    position: Position
    lost: bool


def position_of(text: str) -> Position | None:
    """The position that a Last-Event-ID names; None for none and for nonsense."""
    found = _ID.fullmatch(text)
    return (int(found[1]), WHOLE if found[2] is None else int(found[2])) if found else None


@robust(patience=5.0)
def start(namespace: str, last_id: str) -> Start:
    """After the last event that the watcher has, if that is known and what followed is kept; else now."""
    newest = selectors.namespace_version(namespace)
    asked = position_of(last_id)
    if asked is not None and newest - KEPT <= asked[0] <= newest:
        return Start(asked, lost=False)
    return Start((newest, WHOLE), lost=bool(last_id))


@robust(patience=5.0)
def versions(namespaces: Sequence[str]) -> dict[str, int]:
    """The versions of these namespaces, in one query."""
    known = selectors.namespace_versions()
    return {name: known[name] for name in namespaces if name in known}


@robust(patience=5.0)
def after(namespace: str, position: Position) -> list[Frame]:
    """The next events after a position, up to a page of them."""
    version, number = position
    rows = CatalogEvent.objects.filter(namespace=namespace, version__gte=version).order_by("version", "number")
    rest = rows.exclude(version=version, number__lte=number)[:PAGE]
    return [_frame(row) for row in rest]


def opening(begin: Start) -> bytes:
    """The first bytes: an id to come back with before anything has happened, and `resync` for who has missed some."""
    if not begin.lost:
        return b": the catalog's events\nid: %s\n\n" % _id(begin.position)
    said = dumps({"event": "resync", "namespaceVersion": begin.position[0], "read": "/v1/catalog"})
    return b"id: %s\nevent: resync\ndata: %s\n\n" % (_id(begin.position), said)


def _frame(row: CatalogEvent) -> Frame:
    position = (row.version, row.number)
    said = dumps({"event": row.event, "namespaceVersion": row.version, **row.document})
    body = b"id: %s\nevent: %s\ndata: %s\n\n" % (_id(position), row.event.encode(), said)
    return Frame(position, row.document.get("ability"), body)


def _id(position: Position) -> bytes:
    return b"%d" % position[0] if position[1] == WHOLE else b"%d.%d" % position

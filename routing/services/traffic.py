"""Changing who gets how much of a route's traffic: by somebody who has seen what is there, and back again."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from common.errors import NotFound, StateConflict
from registry import history
from registry.history import Edit
from registry.services.audit import Author
from routing import route_tables
from routing.models import Route
from routing.services import routes

AROUND = dt.timedelta(minutes=10)  # how far a row's time and its audit entry's may lie apart
REMEMBERED = dt.timedelta(days=7)  # how far a change of shares is looked for behind changes of something else
LOOKED_AT = 20  # changes


@dataclass(frozen=True, slots=True)
class Earlier:
    """The candidates before the last change of them, as one would write them, and that change."""

    candidates: list[dict[str, Any]]
    edit: Edit


class Stale(StateConflict):
    """Somebody changed the route since it was looked at; `edits` newest first."""

    def __init__(self, edits: list[Edit]) -> None:
        super().__init__("the route was changed meanwhile")
        self.edits = edits


def set_weights(
    namespace: str, ability: str, weights: Sequence[int | None], *, revision: int, author: Author
) -> routes.Put:
    """Give the candidates, in order, these weights. Raises NotFound, Invalid, and Stale when the route is no longer at
    that revision; nothing is changed then."""
    with transaction.atomic():
        route = current(namespace, ability, revision)
        document = route_tables.written(route)
        pairs = zip(document["candidates"], weights, strict=True)
        document["candidates"] = [_weighted(one, weight) for one, weight in pairs]
        return _put(namespace, document, author)


def add_candidate(
    namespace: str, ability: str, agent_id: str, capability: str, *, revision: int, author: Author
) -> routes.Put:
    """Let another agent be a candidate, which gets nothing until it is given a weight. Raises as above."""
    with transaction.atomic():
        document = route_tables.written(current(namespace, ability, revision))
        document["candidates"].append({"agent": agent_id, "capability": capability, "weight": 0})
        return _put(namespace, document, author)


def roll_back(namespace: str, ability: str, *, revision: int, author: Author) -> routes.Put:
    """Bring back the candidates and weights before the last change of them; all else stays. Raises as above, and
    StateConflict where no such change is known."""
    with transaction.atomic():
        route = current(namespace, ability, revision)
        earlier = before_last_change(route)
        if earlier is None:
            raise StateConflict("no earlier shares of this route are known")
        return _put(namespace, {**route_tables.written(route), "candidates": earlier.candidates}, author)


def current(namespace: str, ability: str, revision: int) -> Route:
    """The route, locked until the caller's transaction ends. Raises NotFound and Stale."""
    route = Route.objects.select_for_update().filter(namespace=namespace, ability=ability).first()
    if route is None:
        raise NotFound
    if route.revision != revision:
        raise Stale(since(route, revision))
    return route


def since(route: Route, revision: int) -> list[Edit]:
    """What was done to the route after that revision, newest first."""
    count = min(max(route.revision - revision, 1), LOOKED_AT)
    return _edits(route, route.updated_at - REMEMBERED, count)


def before_last_change(route: Route) -> Earlier | None:
    """What a rollback would bring back; None where nothing of it is known."""
    found = _of_shares(_edits(route, route.updated_at - AROUND, 1))
    return found or _of_shares(_edits(route, route.updated_at - REMEMBERED, LOOKED_AT))


def _of_shares(edits: list[Edit]) -> Earlier | None:
    for edit in edits:
        before, after = ((one or {}).get("candidates") for one in (edit.before, edit.after))
        if before and before != after:
            return Earlier(before, edit)
    return None


def _edits(route: Route, oldest: dt.datetime, most: int) -> list[Edit]:
    name = f"route:{route.ability}"
    return history.edits(route.namespace_id, name, since=oldest, most=most, readable=_readable)


def _readable(document: dict[str, Any]) -> dict[str, Any]:
    """Candidates by their names, so that a difference says whose weight it is."""
    candidates = document.get("candidates") or []
    named = {route_tables.name_of(one): one.get("weight", "–") for one in candidates}
    return {**document, "candidates": named} if document else {}


def _weighted(one: dict[str, Any], weight: int | None) -> dict[str, Any]:
    rest = {name: value for name, value in one.items() if name != "weight"}
    return rest if weight is None else {**rest, "weight": weight}


def _put(namespace: str, document: dict[str, Any], author: Author) -> routes.Put:
    checked = route_tables.read({"routes": [document]})[1]
    return routes.put(namespace, checked, actor=author.actor, now=author.now, ip=author.ip)

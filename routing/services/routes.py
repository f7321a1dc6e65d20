"""Changing routes: all of a table or nothing, each change on record, every process told."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction

from registry.models import Agent
from registry.news import of_route
from registry.services import audit, changes
from routing import route_tables
from routing.models import Candidate, Route

NOT_SETTINGS = frozenset({"ability", "strategy", "candidates"})


@dataclass(frozen=True, slots=True)
class Change:
    """What a put does to one ability: `change` is created, changed or unchanged."""

    ability: str
    change: str
    before: dict[str, Any] | None
    after: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """The changes, in the order of the table, and what is odd about it without being wrong."""

    changes: list[Change]
    warnings: list[str]


def put(
    namespace: str, routes: list[dict[str, Any]], *, actor: str, now: dt.datetime, ip: str = "", dry_run: bool = False
) -> Put:
    """Write the routes that a table lists and leave the others; with `dry_run` only say what would change.

    `routes` are as `route_tables.read` gives them.
    """
    with transaction.atomic():
        present = _locked(namespace, [route["ability"] for route in routes])
        found = [_change(present.get(route["ability"]), _filled(route)) for route in routes]
        if not dry_run:
            _write(namespace, present, found, actor, now, ip)
    return Put(found, _warnings(namespace, routes))


def remove(namespace: str, ability: str, *, actor: str, now: dt.datetime, ip: str = "") -> bool:
    """Take a route away, which leaves the ability to an implicit one; False when there was none."""
    with transaction.atomic():
        route = _locked(namespace, [ability]).get(ability)
        if route is None:
            return False
        before = route_tables.written(route)
        route.delete()
        audit.record(actor, "route.delete", f"route:{ability}", namespace=namespace, before=before, ip=ip, now=now)
        changes.touch(namespace, [of_route("deleted", ability, now)])
    return True


def _locked(namespace: str, abilities: list[str]) -> dict[str, Route]:
    rows = Route.objects.select_for_update().filter(namespace=namespace, ability__in=abilities).order_by("ability")
    return {route.ability: route for route in rows.prefetch_related("candidates")}


def _filled(route: dict[str, Any]) -> dict[str, Any]:
    head = {name: route.get(name) for name in ("ability", "strategy", "candidates")}
    head["strategy"] = head["strategy"] or settings.REACH_ROUTER_STRATEGY
    return {**head, **{name: value for name, value in route.items() if name not in NOT_SETTINGS}}


def _change(present: Route | None, after: dict[str, Any]) -> Change:
    before = route_tables.written(present) if present else None
    kind = "created" if before is None else "unchanged" if before == after else "changed"
    return Change(after["ability"], kind, before, after)


def _write(
    namespace: str, present: dict[str, Route], found: list[Change], actor: str, now: dt.datetime, ip: str
) -> None:
    real = [change for change in found if change.change != "unchanged"]
    for change in sorted(real, key=lambda c: c.ability):
        _store(namespace, present.get(change.ability), change.after, actor)
        audit.record(
            actor, f"route.{change.change.removesuffix('d')}", f"route:{change.ability}",
            namespace=namespace, before=change.before, after=change.after, ip=ip, now=now,
        )  # fmt: skip
    if real:
        changes.touch(namespace, [of_route(change.change, change.ability, now) for change in real])


def _store(namespace: str, route: Route | None, after: dict[str, Any], actor: str) -> None:
    values = {
        "strategy": after["strategy"],
        "settings": {name: value for name, value in after.items() if name not in NOT_SETTINGS},
        "updated_by": actor[:200],
    }
    if route is None:
        # Another writer may have created it since the rows were locked; the later one wins.
        values_and_key = {"namespace_id": namespace, "ability": after["ability"], "defaults": values}
        route, _ = Route.objects.update_or_create(**values_and_key)
    else:
        for name, value in values.items():
            setattr(route, name, value)
        route.revision += 1
        route.save()
    route.candidates.all().delete()
    candidates = route_tables.rows(after["candidates"])
    for row in candidates:
        row.route = route
    Candidate.objects.bulk_create(candidates)


def _warnings(namespace: str, routes: list[dict[str, Any]]) -> list[str]:
    named = {one["agent"] for route in routes for one in route["candidates"]}
    known = Agent.objects.filter(namespace=namespace, deleted_at=None, agent_id__in=named).values_list(
        "agent_id", flat=True
    )
    return [f"agent {agent_id} is not registered (yet)" for agent_id in sorted(named - set(known))]

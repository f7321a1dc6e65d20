"""Heartbeats: what an instance says of itself, one at a time or many together, and the moves that follow from it."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db import DatabaseError, InterfaceError, transaction

from common.clock import parse_time, rfc3339
from common.database import hot_cursor, robust
from common.errors import NotFound
from registry import instance_cache
from registry.health import HealthSettings, complaint_of, health_factor, judge
from registry.instance_cache import Key, Place, says_something_new
from registry.models import Agent, Instance
from registry.services import changes, evidence, figures, hook_events, judging
from registry.services.hearing import Beat, Known, hear
from registry.services.instances import news_of, set_state
from registry.states import InstanceState

WRITE_EVERY_S = 10.0  # a row's heard-time, while Redis is away

_PLACE = """
SELECT i.id, i.state, i.state_since, i.draining, i.weight_percent, i.heartbeat::text, i.last_heard_at, a.id, a.revision
FROM registry_agent a JOIN registry_instance i ON i.agent_id = a.id
WHERE a.namespace = %s AND a.agent_id = %s AND a.deleted_at IS NULL AND i.instance_id = %s AND i.left_at IS NULL
  AND NOT i.implicit"""

_moving = threading.Lock()


@dataclass(frozen=True)
class Heard:
    """The answer to a heartbeat; `registered` is False when a new PUT is wanted."""

    state: str
    score: float
    registered: bool


class Said(NamedTuple):
    """Whose heartbeat it is, and what it says."""

    key: Key
    body: dict[str, Any]


def heartbeat(namespace: str, agent_id: str, instance_id: str, body: dict[str, Any], *, now: datetime) -> Heard:
    """Hear an instance: one round trip to Redis, and none to the database unless it says something new, or may move.

    Raises NotFound.
    """
    key = (namespace, agent_id, instance_id)
    place = instance_cache.get(key, lambda: _place(*key))
    if place is None:
        return _unknown(namespace, agent_id)
    heard = hear([_beat(place, body)], now)
    known = heard[0] if heard else None
    if known is not None and known.rev != place.rev:
        place = instance_cache.refresh(key, lambda: _place(*key))
        if place is None:
            return _unknown(namespace, agent_id)
        place.rev = known.rev
    if _is_news(place, body):
        return _hear_news(namespace, place, body, now)
    if _may_move(place, now):
        if known is None:
            return _hear_news(namespace, place, body, now)
        # A namespace's moves wait for one another, and would hold all threads when thousands come back at a time: one
        # moves here, the others are moved together by the judge.
        if _moving.acquire(blocking=False):
            try:
                return _hear_news(namespace, place, body, now)
            finally:
                _moving.release()
        evidence.mark([place.pk])
    if known is None and now.timestamp() - place.written_at >= WRITE_EVERY_S:
        Instance.objects.filter(pk=place.pk, left_at=None).update(last_heard_at=now)
        place.written_at = now.timestamp()
    return _answer(place, body, known)


def heartbeats(many: Sequence[Said], *, now: datetime) -> list[Heard | None]:
    """Hear many in one round trip, those that have nothing new to say; None for each that `heartbeat` has to hear."""
    places = [_routine_place(one, now) for one in many]
    beats = [_beat(place, one.body) for place, one in zip(places, many, strict=True) if place]
    heard = hear(beats, now) if beats else None
    if heard is None:
        return [None] * len(many)
    following = iter(heard)
    answers: list[Heard | None] = []
    for place, one in zip(places, many, strict=True):
        known = next(following) if place else None
        fits = place is not None and known is not None and known.rev == place.rev
        answers.append(_answer(place, one.body, known) if place and fits else None)
    return answers


def _routine_place(said: Said, now: datetime) -> Place | None:
    """The place of an instance that goes on as before; a new one is left out, as its good heartbeats are counted."""
    try:
        place = instance_cache.get(said.key, lambda: _place(*said.key))
    except (DatabaseError, InterfaceError):
        return None
    if place is None or place.state == InstanceState.NEW or _is_news(place, said.body) or _may_move(place, now):
        return None
    return place


def _beat(place: Place, body: dict[str, Any]) -> Beat:
    good = not complaint_of(body, place.settings.resources)
    return Beat(place.pk, body, good, proving=place.state == InstanceState.NEW)


def _is_news(place: Place, body: dict[str, Any]) -> bool:
    return says_something_new(place, body, complaint_of(body, place.settings.resources))


def _answer(place: Place, body: dict[str, Any], known: Known | None) -> Heard:
    scored = known.scored if known else None
    return Heard(place.state, scored.score if scored else health_factor(place.state, body), registered=True)


def _unknown(namespace: str, agent_id: str) -> Heard:
    """To an instance that is not there; a new PUT is wanted if its agent is."""
    if not Agent.objects.filter(namespace=namespace, agent_id=agent_id, deleted_at=None).exists():
        raise NotFound
    return Heard(InstanceState.OFFLINE, 0.0, registered=False)


def _may_move(place: Place, now: datetime) -> bool:
    """Whether this heartbeat may be what brings it back, or on: then it is judged at once."""
    waited, settings = now.timestamp() - place.state_since, place.settings
    if place.state == InstanceState.OFFLINE:
        return True
    if place.state == InstanceState.NEW:
        return waited >= settings.proof_after_s
    good_for = now.timestamp() - (place.good_since or place.state_since)
    return (
        place.state == InstanceState.DEGRADED
        and not place.complaint
        and min(waited, good_for) >= settings.recovered_after_s
    )


def _hear_news(namespace: str, place: Place, body: dict[str, Any], now: datetime) -> Heard:
    """A heartbeat that may move the state, or that the row must hear of."""
    kept = evidence.read([place.pk])[place.pk]
    with transaction.atomic():
        row = Instance.objects.select_for_update(no_key=True).filter(pk=place.pk, left_at=None).first()
        if row is None:
            instance_cache.forget(place.pk)
            return Heard(InstanceState.OFFLINE, 0.0, registered=False)
        draining, percent = body.get("status") == "draining", body.get("weightPercent", row.weight_percent)
        reroute = (row.draining, row.weight_percent) != (draining, percent)
        row.draining, row.weight_percent = draining, percent
        hook_events.fire_crossings(row, body, place.settings.resources, now)
        row.heartbeat, row.last_heard_at = _said(row, body, place.settings, now), now
        known = judging.evidence_of(row, kept, place.settings)
        verdict = judge(known, row.state, place.settings, now)
        # What only probes or calls can take out is for the judge, who looks at the prober and at the other instances.
        before = row.state
        moved = verdict.state != InstanceState.OFFLINE and set_state(row, verdict.state, verdict.reason, now)
        row.save(update_fields=["draining", "weight_percent", "heartbeat", "last_heard_at", "state", "state_since",
                                "reason"])  # fmt: skip
        if moved and row.state == InstanceState.NEW:
            evidence.begin_anew([row.pk], now)
        if moved or reroute:
            changes.touch(namespace, [news_of("", row.agent.agent_id, row, before, now)])
        judging.tell([row.pk])
    return Heard(row.state, health_factor(row.state, row.heartbeat), registered=True)


def _said(row: Instance, body: dict[str, Any], settings: HealthSettings, now: datetime) -> dict[str, Any]:
    """The heartbeat as the row keeps it: with since when every one was good."""
    since = (row.heartbeat or {}).get("goodSince")
    return {**body, "goodSince": None if complaint_of(body, settings.resources) else since or rfc3339(now)}


@robust
def _place(namespace: str, agent_id: str, instance_id: str) -> Place | None:
    """As plain SQL: after a restart every instance is read once, and all of them within an interval."""
    with hot_cursor() as cursor:
        row = cursor.execute(_PLACE, [namespace, agent_id, instance_id], prepare=True).fetchone()
    if row is None:
        return None
    pk, state, since, draining, percent, heartbeat, heard_at, agent_pk, revision = row
    settings = figures.of_agents([(agent_pk, revision)])[agent_pk]
    said = msgspec.json.decode(heartbeat) if heartbeat else {}
    good_since = said.get("goodSince")
    return Place(
        pk=pk,
        state=state,
        state_since=since.timestamp(),
        draining=draining,
        weight_percent=percent,
        status=said.get("status", "ok"),
        components=said.get("components", {}),
        complaint=complaint_of(said, settings.resources),
        good_since=parse_time(good_since).timestamp() if good_since else None,
        settings=settings,
        written_at=heard_at.timestamp() if heard_at else 0.0,
        read_at=time.monotonic(),
    )

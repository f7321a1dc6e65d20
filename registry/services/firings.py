"""Firings from their claim to their end: leased, told, retried, given up. What writes them is `services.hooks`.

A claim moves `due_at` past the longest try, so what a dead worker took is due again by itself, with the same
webhook-id. Whoever settles a try names it by its number, so a late or doubled report changes nothing.
"""

import logging
import threading
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from common.arrays import arrays, unnest
from common.clock import rfc3339
from common.database import hot_cursor, robust
from common.encoding import clean_text, dumps
from common.logging import log_event
from registry.hooks.messages import TEST, Due, Tried
from registry.hooks.policy import MOST_TRIES, Next, next_step
from registry.hooks.sender import BOUNDS, Lane, Sender
from registry.models import HookFiring

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)  # a command may take 30 s
ERROR_LIMIT = 500
AT_ONCE = 1000

_IN_LANE = {
    Lane.WELL: "h.command = '' AND h.failing_since IS NULL",
    Lane.FAILING: "h.command = '' AND h.failing_since IS NOT NULL",
    Lane.COMMANDS: "h.command <> ''",
}
_BUSY = {"busy": "uuid", "count": "int"}
_CLAIM = f"""
WITH waiting AS MATERIALIZED (
  SELECT DISTINCT hook_id FROM registry_hookfiring WHERE state = 'PENDING' AND due_at <= %(now)s AND attempts < %(most)s
), open AS MATERIALIZED (
  SELECT h.id, greatest(%(per_hook)s::int - coalesce(g.count, 0), 0) AS room
  FROM waiting w JOIN registry_hook h ON h.id = w.hook_id LEFT JOIN {unnest(_BUSY)} ON g.busy = h.id
  WHERE {{lane}}
), due AS MATERIALIZED (
  SELECT f.id FROM open o CROSS JOIN LATERAL (
    SELECT id FROM registry_hookfiring
    WHERE hook_id = o.id AND state = 'PENDING' AND due_at <= %(now)s AND attempts < %(most)s
    ORDER BY due_at, id LIMIT o.room FOR UPDATE SKIP LOCKED
  ) f LIMIT %(room)s
)
UPDATE registry_hookfiring f SET due_at = %(until)s, attempts = f.attempts + 1
FROM due, registry_hook h WHERE f.id = due.id AND h.id = f.hook_id
RETURNING f.id, f.hook_id, f.event, f.agent_id, h.url, h.command, h.secrets, f.body, f.attempts"""  # noqa: S608

_TRIED = {
    "id": "uuid", "number": "int", "state": "text", "due": "timestamptz", "error": "text", "try": "text",
}  # fmt: skip
_FINISH = f"""
WITH given AS (SELECT * FROM {unnest(_TRIED)}), locked AS MATERIALIZED (
  SELECT f.id FROM registry_hookfiring f WHERE f.id = ANY(%(id)s::uuid[]) ORDER BY f.id FOR UPDATE
)
UPDATE registry_hookfiring f SET state = g.state, due_at = g.due, last_error = g.error, tries = f.tries || g.try::jsonb,
  ended_at = CASE WHEN g.due IS NULL THEN %(now)s END
FROM given g JOIN locked l ON l.id = g.id
WHERE f.id = g.id AND f.state = 'PENDING' AND f.attempts = g.number RETURNING f.id"""  # noqa: S608

_TOLD = {"hook": "uuid", "error": "text", "gone": "bool", "resumes": "bool"}
_NOTE = f"""
WITH given AS (SELECT * FROM {unnest(_TOLD)}), locked AS MATERIALIZED (
  SELECT h.id FROM registry_hook h WHERE h.id = ANY(%(hook)s::uuid[]) ORDER BY h.id FOR NO KEY UPDATE
)
UPDATE registry_hook h SET last_error = g.error,
  failing_since = CASE WHEN g.error <> '' THEN coalesce(h.failing_since, %(now)s) END,
  stopped_at = CASE WHEN g.gone THEN coalesce(h.stopped_at, %(now)s) WHEN NOT g.resumes THEN h.stopped_at END
FROM given g JOIN locked l ON l.id = g.hook WHERE h.id = g.hook"""  # noqa: S608

_sender: Sender | None = None
_ticking = threading.Lock()


def tick(now: datetime) -> int:
    """Claim what is due and this process has room for, and begin to tell it; returns how many were claimed."""
    if not _due(now):  # most ticks end here, with one short query
        return 0
    with _ticking:  # two at once would each fill the same room
        sender, claimed = running_sender(), 0
        for lane in Lane:
            dues = claim(now, lane, sender.under_way(lane))
            sender.submit(dues, lane)
            claimed += len(dues)
    return claimed


@robust(patience=5.0)
def claim(now: datetime, lane: Lane, under_way: dict[uuid.UUID, int] | None = None) -> list[Due]:
    """Lease firings that are due, the oldest of each hook, beside those that are `under_way` here already."""
    busy, bounds = under_way or {}, BOUNDS[lane]
    values = {
        "now": now, "until": now + LEASE, "most": MOST_TRIES, "per_hook": bounds.per_hook,
        "room": max(0, bounds.overall - sum(busy.values())), **arrays(_BUSY, list(busy.items())),
    }  # fmt: skip
    with hot_cursor() as cursor:
        cursor.execute(_CLAIM.format(lane=_IN_LANE[lane]), values)
        return [_claimed(*row) for row in cursor.fetchall()]


def finish(tried: Sequence[Tried], now: datetime) -> int:
    """Note how tries went and what follows; returns how many of them still counted."""
    steps = [(one, next_step(one)) for one in {one.due.id: one for one in tried}.values()]
    kept = _finish(steps, now)
    for one, step in steps:
        if one.due.id in kept:
            _tell(one, step)
    return len(kept)


def sweep(now: datetime, keep: timedelta) -> int:
    """Give up what was begun five times and never reported; forget what ended longer ago than `keep`."""
    lost = HookFiring.objects.filter(state="PENDING", due_at__lte=now, attempts__gte=MOST_TRIES)
    given_up = lost.update(state="DEAD", due_at=None, ended_at=now, last_error="no try came to an end")
    old = HookFiring.objects.filter(ended_at__lt=now - keep).order_by("ended_at").values("pk")[:AT_ONCE]
    HookFiring.objects.filter(pk__in=old).delete()
    return given_up


def running_sender() -> Sender:
    """This process's sender, started at its first use."""
    global _sender
    if _sender is None:
        _sender = Sender(finish, tick)
    return _sender


def stop(drain_s: float = 0.0) -> None:
    """End this process's sender, after what it is about to tell if that takes no longer; what it leaves becomes due
    again by itself."""
    global _sender
    if _sender is not None:
        _sender.drain(drain_s)
        _sender.stop()
        _sender = None


def _claimed(id: uuid.UUID, hook: uuid.UUID, event: str, agent: str, url: str, command: str, *rest: Any) -> Due:
    secrets, body, number = rest
    return Due(id, hook, event, agent, url, command, bytes(secrets), bytes(body), number)


def _due(now: datetime) -> bool:
    return HookFiring.objects.filter(state="PENDING", due_at__lte=now).exists()


@robust(patience=5.0)
def _finish(steps: Sequence[tuple[Tried, Next]], now: datetime) -> set[uuid.UUID]:
    rows = [(one.due.id, one.due.number, step.state, step.due_at, _error(one), _entry(one)) for one, step in steps]
    with transaction.atomic(), hot_cursor() as cursor:
        cursor.execute(_FINISH, {**arrays(_TRIED, rows), "now": now})
        kept = {row[0] for row in cursor.fetchall()}
        # The newest try of a hook says how the hook is.
        newest = {one.due.hook_id: one for one, _ in sorted(steps, key=_ended_at) if one.due.id in kept}
        hooks = [(hook, _error(one), one.gone, _resumes(one)) for hook, one in newest.items()]
        cursor.execute(_NOTE, {**arrays(_TOLD, hooks), "now": now})
        gone = [hook for hook, one in newest.items() if one.gone]
        if gone:
            waiting = HookFiring.objects.filter(hook__in=gone, state="PENDING").exclude(event=TEST)
            waiting.update(state="DEAD", due_at=None, ended_at=now, last_error="the receiver answered 410 to another")
    return kept


def _ended_at(step: tuple[Tried, Next]) -> datetime:
    return step[0].at + timedelta(milliseconds=step[0].took_ms)


def _resumes(one: Tried) -> bool:
    """Whether a stopped hook goes on: its receiver took a test."""
    return one.error is None and one.due.event == TEST


def _error(one: Tried) -> str:
    return clean_text(one.error or "", ERROR_LIMIT)


def _entry(one: Tried) -> str:
    known: dict[str, Any] = {"number": one.due.number, "at": rfc3339(one.at), "status": one.status}
    return dumps([{**known, "error": _error(one) or None, "tookMs": one.took_ms}]).decode()


def _tell(one: Tried, step: Next) -> None:
    due = one.due
    error = None if due.command else one.error  # a command's output may hold anything
    log_event(
        log, "hook.dead" if step.state == "DEAD" else "hook.tried", level="info" if one.error is None else "warning",
        agent_id=due.agent_id or None, cost_ms=one.took_ms, hookId=str(due.hook_id), firingId=str(due.id),
        firingEvent=due.event, attempt=due.number, status=one.status, error=error,
    )  # fmt: skip

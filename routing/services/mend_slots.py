"""The truth of slots is the open attempts: what Redis lost is put back, what it kept too long is taken out."""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any

from common.clock import now as clock_now
from common.database import hot_cursor, robust
from routing.limits import slots
from routing.limits.slots import LEASE_MS, Slot

_PAGE = 5000
_FOUND_MS = 7_000  # for a call under way: its worker, if it lives, renews the lease within five seconds
_OPEN = """
SELECT a.key, a.namespace, a.agent_id, a.instance_id, coalesce(t.fallback ->> 'ability', t.ability),
  a.worker IS NULL, a.deadline_at, a.task_id, a.number
FROM routing_attempt a JOIN routing_task t ON t.id = a.task_id
WHERE a.ended_at IS NULL AND a.deadline_at > %(now)s
  AND (a.deadline_at, a.task_id, a.number) > (%(at)s, %(id)s, %(number)s)
ORDER BY a.deadline_at, a.task_id, a.number LIMIT %(limit)s"""


@dataclass(frozen=True, slots=True)
class _Open:
    slot: Slot
    released: bool  # the agent works on its own: nobody renews the lease
    deadline_at: dt.datetime


def mend(now: dt.datetime | None = None) -> int:
    """Compare Redis with the open attempts and correct it, then let slots be granted; returns how many were corrected.

    Only leases that no worker renews are taken out: those of calls under way may be older than their attempts' rows,
    and lapse by themselves. Raises RedisAway.
    """
    now = now or clock_now()
    kept = slots.everything()  # before the rows: what is kept too long by then has ended
    found = _open_attempts(now)
    known = {attempt for members in kept.values() for attempt in members}
    too_long = {key: _long(members, now) - found.keys() for key, members in kept.items()}
    slots.remove(too_long)
    missing = {attempt: one for attempt, one in found.items() if attempt not in known}
    for part in _parts(list(missing.values())):
        slots.hold((one.slot, _ms(one, now)) for one in part)
    slots.begin_epoch()
    if missing:  # what ended while it was put back
        slots.end(missing[attempt].slot for attempt in missing.keys() - _open_attempts(now).keys())
    return len(missing) + len(set().union(*too_long.values()))


def _long(members: dict[str, int], now: dt.datetime) -> set[str]:
    """The attempts whose leases run longer than renewed ones; those of callers, with a dash, end by themselves."""
    least = now.timestamp() * 1000 + LEASE_MS + 5_000
    return {attempt for attempt, until in members.items() if until > least and "-" not in attempt}


def _ms(one: _Open, now: dt.datetime) -> int:
    return max(1, (one.deadline_at - now) // dt.timedelta(milliseconds=1)) if one.released else _FOUND_MS


def _parts(found: list[_Open], size: int = 1000) -> list[list[_Open]]:
    return [found[at : at + size] for at in range(0, len(found), size)]


def _open_attempts(now: dt.datetime) -> dict[str, _Open]:
    """All that are open by attempt, page by page."""
    found: dict[str, _Open] = {}
    after = (now, uuid.UUID(int=0), 0)
    while True:
        rows = _page(now, after)
        for key, namespace, agent_id, instance_id, ability, released, deadline_at, _, _ in rows:
            slot = Slot(key.hex, (namespace, agent_id, instance_id), (namespace, ability))
            found[slot.attempt] = _Open(slot, released, deadline_at)
        if len(rows) < _PAGE:
            return found
        after = (rows[-1][6], rows[-1][7], rows[-1][8])


@robust(patience=2.0)
def _page(now: dt.datetime, after: tuple[dt.datetime, uuid.UUID, int]) -> list[tuple[Any, ...]]:
    at, id, number = after
    with hot_cursor() as cursor:
        values = {"now": now, "at": at, "id": id, "number": number, "limit": _PAGE}
        return cursor.execute(_OPEN, values).fetchall()

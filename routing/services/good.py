"""The last good results, to answer with when nobody can: pointers to tasks, so that no result is kept twice."""

import datetime as dt
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from common.arrays import arrays, unnest
from common.database import hot_cursor, robust
from common.json import raw_fields
from routing import snapshot
from routing.fallback import DAY_MS, digest_of

log = logging.getLogger(__name__)

KEPT = dt.timedelta(milliseconds=DAY_MS)
FORGOTTEN_AT_ONCE = 1000

_COLUMNS = {"namespace": "text", "client": "text", "ability": "text", "digest": "bytea", "task_id": "uuid"}
_REMEMBER = f"""
INSERT INTO routing_goodresult (namespace, client, ability, digest, task_id, at)
SELECT DISTINCT ON (namespace, client, ability, digest) namespace, client, ability, digest, task_id, %(at)s
FROM {unnest(_COLUMNS)} ORDER BY namespace, client, ability, digest, task_id DESC
ON CONFLICT (namespace, client, ability, digest) DO UPDATE SET task_id = excluded.task_id, at = excluded.at"""  # noqa: S608
_FIND = """
SELECT g.at, b.result FROM routing_goodresult g JOIN routing_taskbody b ON b.task_id = g.task_id
WHERE g.namespace = %s AND g.client = %s AND g.ability = %s AND g.digest = %s AND g.at > %s"""
_FORGET = """
DELETE FROM routing_goodresult WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM routing_goodresult WHERE at < %s LIMIT %s))"""


def remember(succeeded: Iterable[Mapping[str, Any]], now: dt.datetime) -> None:
    """Note which of these tasks (facts of `moves`) may answer for later ones: where request or route ask for it."""
    rows = [
        (task["namespace"], task["client"], task["ability"], _digest(task["request"]), task["id"])
        for task in succeeded
        if task["fallback"] is None and _is_wanted(task)
    ]
    if not rows:
        return
    try:
        with hot_cursor() as cursor:
            cursor.execute(_REMEMBER, {**arrays(_COLUMNS, rows), "at": now})
    except (DatabaseError, InterfaceError) as error:  # the results themselves are on record
        log.warning("good results are not remembered: %s", type(error).__name__)


@robust(patience=2.0)
def find(
    namespace: str, client: str, ability: str, request: bytes, since: dt.datetime
) -> tuple[dt.datetime, bytes] | None:
    """(when, its data as JSON) of the last good result for the same payload since then."""
    with hot_cursor() as cursor:
        row = cursor.execute(_FIND, [namespace, client, ability, _digest(request), since]).fetchone()
    if row is None or row[1] is None:
        return None
    return row[0], raw_fields(bytes(row[1]), ("data",)).get("data", b"null")


@robust(patience=2.0)
def forget(now: dt.datetime) -> int:
    """Forget what is too old for everybody; returns how many."""
    with hot_cursor() as cursor:
        return cursor.execute(_FORGET, [now - KEPT, FORGOTTEN_AT_ONCE]).rowcount


def _is_wanted(task: Mapping[str, Any]) -> bool:
    ability = snapshot.current(task["namespace"]).abilities.get(task["ability"])
    return b'"cachedResult"' in bytes(task["request"]) or bool(ability and ability.route.fallback.get("cachedResultMs"))


def _digest(request: bytes) -> bytes:
    return digest_of(raw_fields(bytes(request), ("payload",))["payload"])
